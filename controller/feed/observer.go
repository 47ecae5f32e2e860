package feed

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Observer is shown every state of a kind's objects before it is judged. Begin and End enclose a
// list of the whole kind: objects that it does not show are gone.
type Observer interface {
	Begin()
	See(object runtime.Object)
	Forget(uid types.UID)
	End()
}

// nobody observes kinds that no other kind depends on.
type nobody struct{}

func (nobody) Begin()             {}
func (nobody) See(runtime.Object) {}
func (nobody) Forget(types.UID)   {}
func (nobody) End()               {}
