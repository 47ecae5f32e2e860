package coverage

import (
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// paths is a tree of field paths, so that a condition walks what they share only once.
type paths struct {
	// own marks the object's metadata, inherited that of a template in it: their keys concern Curfew.
	// value marks a field.
	own, inherited, value bool
	below                 map[string]*paths
}

// at returns the node of a path.
func (p *paths) at(path policy.FieldPath) *paths {
	for _, part := range path {
		if p.below == nil {
			p.below = map[string]*paths{}
		}
		if p.below[part] == nil {
			p.below[part] = &paths{}
		}
		p = p.below[part]
	}
	return p
}

// differ returns terms that ask whether a request changes one of the paths. One of them has to be
// true.
func (p *paths) differ(at node) []string {
	var found found
	p.collect(at, &found)
	var terms []string
	if len(found.own) > 0 {
		terms = append(terms, keysDiffer(found.own, objectKeys))
	}
	if len(found.inherited) > 0 {
		terms = append(terms, keysDiffer(found.inherited, "("+objectKeys+" + "+quoted([]string{policy.LabelKyvernoTTL})+")"))
	}
	return slices.Concat(terms, found.lists, valuesDiffer(found.values))
}

// found groups nodes that one term can ask about together.
type found struct {
	own, inherited, values []node
	lists                  []string
}

func (p *paths) collect(at node, found *found) {
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
			found.lists = append(found.lists, at.anyItem(func(item node) string { return strings.Join(below.differ(item), " || ") }))
			continue
		}
		below.collect(at.field(part), found)
	}
}
