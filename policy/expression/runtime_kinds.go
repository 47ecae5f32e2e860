package expression

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// Fields are the native fields in which a runtime of some kind may say a TTL and a deadline, the one that wins first.
func (r *Runtime) Fields(kind schema.GroupKind) (ttl, deadline []policy.FieldPath) {
	for i := range r.kinds {
		if r.kinds[i].kind.GroupKind() == kind {
			return r.kinds[i].ttl, r.kinds[i].deadline
		}
	}
	return nil, nil
}

// ClusterScoped reports whether runtimes of a kind live outside of namespaces.
func (r *Runtime) ClusterScoped(kind schema.GroupKind) bool {
	for i := range r.kinds {
		if r.kinds[i].kind.GroupKind() == kind {
			return r.kinds[i].clusterScoped
		}
	}
	return false
}
