package expression

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// NamePath is where an object names the runtime that it uses; nil where that cannot be read.
func (r *Runtime) NamePath() policy.FieldPath { return r.name }

// HasDeadline reports whether a runtime, which is an object of one of the kinds, says anything of a deadline.
func (r *Runtime) HasDeadline(runtime map[string]any) bool {
	for i := range r.kinds {
		group, kind := r.kinds[i].kind.ToAPIVersionAndKind()
		if runtime["apiVersion"] == group && runtime["kind"] == kind {
			return (&Reference{Kind: r.kinds[i].kind, from: &r.kinds[i]}).Policy(runtime).Deadline != nil
		}
	}
	return false
}

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

// Profiles are bare profiles of the kinds that may be referred to, for those that have none of their own.
func (r *Runtime) Profiles() []*Profile {
	var out []*Profile
	for i := range r.kinds {
		of := &r.kinds[i]
		out = append(out, &Profile{spec: &v1alpha1.KindProfileSpec{}, Profile: &policy.Profile{
			Name: of.kind.Kind, Kind: of.kind, Resource: of.resource, ClusterScoped: of.clusterScoped,
		}})
	}
	return out
}
