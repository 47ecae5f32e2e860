package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// readDefinition keeps the names of fields alone: a cluster holds many CustomResourceDefinitions, and large ones.
func readDefinition(object *unstructured.Unstructured) expression.Definition {
	return expression.DefinitionOf(object.Object)
}

// Served is a kind that has a profile, or serves others as their runtime, as the API server serves it.
type Served struct {
	// Profile as it holds for the installed version, linked with those of the templates inside.
	*expression.Profile
	// Schema of the installed version.
	Schema *expression.Schema
	// TTL and Deadline are the fields in which objects of the kind say, as a runtime, what holds for those that use them.
	TTL, Deadline []policy.FieldPath
	// RuntimeDeadline means that a runtime which objects of the kind may use has a deadline, or that this is not known.
	RuntimeDeadline bool
}

// Served are the kinds beside those of Kubernetes itself about which admission can have something to say. Before all is known
// it is an error.
func (r *Registry) Served() ([]Served, error) {
	definitions, byKind, err := r.known()
	if err != nil {
		return nil, err
	}
	profiles := make([]*expression.Profile, 0, len(byKind))
	for _, compiled := range byKind {
		profiles = append(profiles, compiled.Profile)
	}
	out := ServedBy(profiles, slices.Collect(maps.Values(definitions)))
	for i := range out {
		if of := out[i].Runtime; of != nil {
			says, known := r.runtimeDeadline(of)
			out[i].RuntimeDeadline = says || !known
		}
	}
	return out, nil
}

// ServedBy are the kinds that have a profile, or are referred to by one that has, and are served by CustomResourceDefinitions,
// in the order of their names.
func ServedBy(profiles []*expression.Profile, definitions []expression.Definition) []Served {
	byKind := make(map[schema.GroupKind]*expression.Definition, len(definitions))
	for i := range definitions {
		byKind[definitions[i].Kind] = &definitions[i]
	}
	schemas := map[schema.GroupKind]*expression.Schema{}
	var holding []*expression.Profile
	used, bare := map[schema.GroupKind][]*expression.Runtime{}, map[schema.GroupKind]*expression.Profile{}
	for _, profile := range profiles {
		held := served(profile, byKind, schemas)
		holding = append(holding, held)
		if _, ok := schemas[profile.Kind.GroupKind()]; !ok || profile.Runtime == nil {
			continue
		}
		for _, referred := range profile.Runtime.Profiles() {
			kind := referred.Kind.GroupKind()
			used[kind] = append(used[kind], profile.Runtime)
			bare[kind] = referred
		}
	}
	for _, profile := range profiles {
		delete(bare, profile.Kind.GroupKind())
	}
	for _, profile := range bare {
		holding = append(holding, served(profile, byKind, schemas))
	}
	var out []Served
	for kind, profile := range expression.Link(holding...) {
		if fields, ok := schemas[kind]; ok {
			of := Served{Profile: profile, Schema: fields}
			for _, runtime := range used[kind] {
				of.add(runtime.Fields(kind))
			}
			out = append(out, of)
		}
	}
	slices.SortFunc(out, func(a, b Served) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

// served is a copy of the profile, as it holds for the installed version where there is one, and notes the schema of that.
func served(profile *expression.Profile, byKind map[schema.GroupKind]*expression.Definition, schemas map[schema.GroupKind]*expression.Schema) *expression.Profile {
	if definition, ok := byKind[profile.Kind.GroupKind()]; ok {
		if fields, ok := definition.Serves(profile); ok {
			schemas[profile.Kind.GroupKind()] = fields
			return profile.Installed(fields, func(kind schema.GroupKind) *expression.Definition { return byKind[kind] })
		}
	}
	return profile.Served(func(policy.FieldPath) bool { return true })
}

func (s *Served) add(ttl, deadline []policy.FieldPath) {
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

func contains(paths []policy.FieldPath, one policy.FieldPath) bool {
	return slices.ContainsFunc(paths, func(path policy.FieldPath) bool { return slices.Equal(path, one) })
}

// Definitions are the kinds that CustomResourceDefinitions define, each in the version in which it is stored where that is served:
// reading it asks no conversion webhook, which may be broken.
func (r *Registry) Definitions() (map[schema.GroupResource]discovery.Kind, error) {
	all, err := r.definitions.All()
	if err != nil {
		return nil, fmt.Errorf("CustomResourceDefinitions: %w", err)
	}
	out := map[schema.GroupResource]discovery.Kind{}
	for _, definition := range all {
		if version := definition.Preferred(); version != "" {
			kind := discovery.Kind{GroupVersionKind: definition.Kind.WithVersion(version), Resource: definition.Resource, ClusterScoped: definition.ClusterScoped}
			out[kind.GroupResource()] = kind
		}
	}
	return out, nil
}
