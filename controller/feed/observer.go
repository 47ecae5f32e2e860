package feed

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Observer sees every state of a kind's objects before it is judged. Begin and End enclose a list
// of the whole kind: objects that the list does not show are gone.
type Observer interface {
	Begin()
	See(object runtime.Object)
	Forget(uid types.UID)
	End()
}

// noObserver observes kinds that no other kind depends on.
type noObserver struct{}

func (noObserver) Begin()             {}
func (noObserver) See(runtime.Object) {}
func (noObserver) Forget(types.UID)   {}
func (noObserver) End()               {}
