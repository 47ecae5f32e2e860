package registry

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
}

// Served are the kinds beside those of Kubernetes itself about which admission can have something to say, in the order of
// their names. Before all is known it is an error.
func (r *Registry) Served() ([]Served, error) {
	definitions, byKind, err := r.known()
	if err != nil {
		return nil, err
	}
	schemas := map[schema.GroupKind]*expression.Schema{}
	var profiles []*expression.Profile
	runtimes := runtimesOf(byKind, definitions)
	for kind, compiled := range byKind {
		profiles = append(profiles, served(compiled.Profile, definitions, schemas))
		delete(runtimes.bare, kind)
	}
	for _, bare := range runtimes.bare {
		profiles = append(profiles, served(bare, definitions, schemas))
	}
	var out []Served
	for kind, profile := range expression.Link(profiles...) {
		if fields, ok := schemas[kind]; ok {
			of := Served{Profile: profile, Schema: fields}
			for _, runtime := range runtimes.used[kind] {
				of.add(runtime.Fields(kind))
			}
			out = append(out, of)
		}
	}
	slices.SortFunc(out, func(a, b Served) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

func (s *Served) add(ttl, deadline []policy.FieldPath) {
	for _, path := range ttl {
		if s.Schema.Has(path) {
			s.TTL = append(s.TTL, path)
		}
	}
	for _, path := range deadline {
		if s.Schema.Has(path) {
			s.Deadline = append(s.Deadline, path)
		}
	}
}

// served is a copy of the profile, as it holds for the installed version where there is one, and notes the schema of that.
func served(profile *expression.Profile, definitions map[string]expression.Definition, schemas map[schema.GroupKind]*expression.Schema) *expression.Profile {
	for _, definition := range definitions {
		if fields, ok := definition.Serves(profile); ok {
			schemas[profile.Kind.GroupKind()] = fields
			return profile.Served(fields.Has)
		}
	}
	return profile.Served(func(policy.FieldPath) bool { return true })
}

// runtimes are the kinds that served kinds refer to.
type runtimes struct {
	used map[schema.GroupKind][]*expression.Runtime
	// bare profiles, for kinds of runtimes that may have none of their own.
	bare map[schema.GroupKind]*expression.Profile
}

func runtimesOf(byKind map[schema.GroupKind]compiledProfile, definitions map[string]expression.Definition) runtimes {
	out := runtimes{used: map[schema.GroupKind][]*expression.Runtime{}, bare: map[schema.GroupKind]*expression.Profile{}}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		definition := definitions[name]
		user, ok := byKind[definition.Kind]
		if !ok || user.Runtime == nil {
			continue
		}
		if _, ok := definition.Serves(user.Profile); !ok {
			continue
		}
		for _, profile := range user.Runtime.Profiles() {
			kind := profile.Kind.GroupKind()
			out.used[kind] = append(out.used[kind], user.Runtime)
			out.bare[kind] = profile
		}
	}
	return out
}
