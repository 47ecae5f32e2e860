package coverage

import (
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// places are fields of objects, by the names that lead to them, so that what they share is walked once.
type places struct {
	// keys of Curfew's, in the metadata below, concern it here; so does the value of the field itself.
	keys, value bool
	below       map[string]*places
}

func (p *places) at(path policy.FieldPath) *places {
	for _, part := range path {
		if p.below == nil {
			p.below = map[string]*places{}
		}
		if p.below[part] == nil {
			p.below[part] = &places{}
		}
		p = p.below[part]
	}
	return p
}

// differ asks whether a request changes what concerns Curfew at one of the places: the terms of which one has to hold.
func (p *places) differ(at node) []string {
	var maps, values []node
	var lists []string
	p.collect(at, &maps, &values, &lists)
	var terms []string
	if len(maps) > 0 {
		terms = append(terms, keyed(maps, objectKeys))
	}
	return slices.Concat(terms, lists, scalars(values))
}

func (p *places) collect(at node, found, values *[]node, lists *[]string) {
	if p.keys {
		*found = append(*found, metadata(at.field("metadata"))...)
	}
	if p.value {
		*values = append(*values, at)
	}
	for _, part := range slices.Sorted(maps.Keys(p.below)) {
		below := p.below[part]
		if part == "*" {
			*lists = append(*lists, at.each(func(item node) string { return strings.Join(below.differ(item), " || ") }))
			continue
		}
		below.collect(at.field(part), found, values, lists)
	}
}
