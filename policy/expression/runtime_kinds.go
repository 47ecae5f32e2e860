package expression

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// NamePath is the field of an object that names its runtime; nil if the path cannot be read.
func (r *Runtime) NamePath() policy.FieldPath { return r.name }

// HasDeadline reports whether an object of one of the kinds sets a deadline.
func (r *Runtime) HasDeadline(runtime map[string]any) bool {
	for i := range r.kinds {
		group, kind := r.kinds[i].kind.ToAPIVersionAndKind()
		if runtime["apiVersion"] == group && runtime["kind"] == kind {
			return (&Reference{Kind: r.kinds[i].kind, from: &r.kinds[i]}).Policy(runtime, nil).Deadline != nil
		}
	}
	return false
}

// Fields are the native fields of a runtime kind for a TTL and a deadline, in order of precedence.
func (r *Runtime) Fields(kind schema.GroupKind) (ttl, deadline []policy.FieldPath) {
	for i := range r.kinds {
		if r.kinds[i].kind.GroupKind() == kind {
			return r.kinds[i].ttl, r.kinds[i].deadline
		}
	}
	return nil, nil
}

// ClusterScoped reports whether runtimes of a kind are cluster-scoped.
func (r *Runtime) ClusterScoped(kind schema.GroupKind) bool {
	for i := range r.kinds {
		if r.kinds[i].kind.GroupKind() == kind {
			return r.kinds[i].clusterScoped
		}
	}
	return false
}

// Profiles are bare profiles of the kinds that objects may refer to, for kinds without a
// KindProfile.
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
