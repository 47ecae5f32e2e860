package coverage

import (
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// places are fields of objects, by the names that lead to them, so that what they share is walked once.
type places struct {
	// own is the metadata of the object, and inherited that of a template in it: their keys concern Curfew. So does the value of a field.
	own, inherited, value bool
	below                 map[string]*places
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
	var found found
	p.collect(at, &found)
	var terms []string
	if len(found.own) > 0 {
		terms = append(terms, keyed(found.own, objectKeys))
	}
	if len(found.inherited) > 0 {
		terms = append(terms, keyed(found.inherited, "("+objectKeys+" + "+quoted([]string{policy.LabelKyvernoTTL})+")"))
	}
	return slices.Concat(terms, found.lists, scalars(found.values))
}

// found is what one term can ask for together.
type found struct {
	own, inherited, values []node
	lists                  []string
}

func (p *places) collect(at node, found *found) {
	if p.own {
		found.own = append(found.own, metadata(at)...)
	}
	if p.inherited {
		found.inherited = append(found.inherited, metadata(at)...)
	}
	if p.value {
		found.values = append(found.values, at)
	}
	for _, part := range slices.Sorted(maps.Keys(p.below)) {
		below := p.below[part]
		if part == "*" {
			found.lists = append(found.lists, at.each(func(item node) string { return strings.Join(below.differ(item), " || ") }))
			continue
		}
		below.collect(at.field(part), found)
	}
}
