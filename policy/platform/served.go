package platform

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
)

// Served is a kind that has a profile, or that others use as their runtime, as the API server
// serves it.
type Served struct {
	// Profile as it applies to the installed version, linked with the profiles of the templates
	// inside.
	*expression.Profile
	// Schema of the installed version.
	Schema *expression.Schema
	// TTL and Deadline are the fields in which a runtime of the kind sets the TTL and the deadline of
	// the objects that use it.
	TTL, Deadline []fieldpath.FieldPath
	// IsRuntime means that objects of other kinds may use objects of this kind as their runtime.
	IsRuntime bool
	// RuntimeDeadline means that a runtime which objects of the kind may use has a deadline, or that
	// this is not known.
	RuntimeDeadline bool
}

// Served are the kinds that CustomResourceDefinitions serve and admission can have something to say
// about, in the order of their names.
func (s *Snapshot) Served() []Served {
	used, bare := map[schema.GroupKind][]*expression.Runtime{}, map[schema.GroupKind]*expression.Profile{}
	for profile := range s.Installed() {
		if profile.Runtime == nil {
			continue
		}
		for _, referred := range profile.Runtime.Profiles() {
			kind := referred.Kind.GroupKind()
			used[kind] = append(used[kind], profile.Runtime)
			if s.compiled[kind] == nil {
				bare[kind] = referred
			}
		}
	}
	var out []Served
	for _, profile := range linkedCopies(s.compiled, slices.Collect(maps.Values(bare))...) {
		definition := s.definitions[profile.Kind.GroupKind()]
		if definition == nil {
			continue
		}
		if fields, ok := definition.Serves(profile); ok {
			of := Served{Profile: profile, Schema: fields, IsRuntime: len(used[profile.Kind.GroupKind()]) > 0}
			for _, runtime := range used[profile.Kind.GroupKind()] {
				of.add(runtime.Fields(profile.Kind.GroupKind()))
			}
			out = append(out, of)
		}
	}
	return out
}

func (s *Served) add(ttl, deadline []fieldpath.FieldPath) {
	for _, path := range ttl {
		if s.Schema.Has(path) && !contains(s.TTL, path) {
			s.TTL = append(s.TTL, path)
		}
	}
	for _, path := range deadline {
		if s.Schema.Has(path) && !contains(s.Deadline, path) {
			s.Deadline = append(s.Deadline, path)
		}
	}
}

func contains(paths []fieldpath.FieldPath, one fieldpath.FieldPath) bool {
	return slices.ContainsFunc(paths, func(path fieldpath.FieldPath) bool { return slices.Equal(path, one) })
}
