package cleanup

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// ages order the CleanupPolicies of each namespace by age, so that a step of one does not read all.
type ages struct {
	mu sync.Mutex
	in map[string][]spec
}

func newAges() *ages { return &ages{in: map[string][]spec{}} }

func byAge(a, b spec) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.uid, b.uid))
}

// observe follows a policy by its namespace and name; old is nil if it is new, now if it is gone.
func (a *ages) observe(key string, old, now *seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	namespace, _, _ := strings.Cut(key, "/")
	list := a.in[namespace]
	if old != nil {
		if i, ok := slices.BinarySearchFunc(list, old.spec, byAge); ok {
			list = slices.Delete(list, i, i+1)
		}
	}
	if now != nil {
		i, _ := slices.BinarySearchFunc(list, now.spec, byAge)
		list = slices.Insert(list, i, now.spec)
	}
	if a.in[namespace] = list; len(list) == 0 {
		delete(a.in, namespace)
	}
}

// older is how many policies of a namespace are older than one.
func (a *ages) older(namespace string, than spec) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	older, _ := slices.BinarySearchFunc(a.in[namespace], than, byAge)
	return older
}
