package coverage

import (
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// places are fields of objects, by the names that lead to them, so that what they share is walked once.
type places struct {
	// keys of Curfew's, in the metadata below, concern it here; so does that the field is there at all.
	keys, presence bool
	below          map[string]*places
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

// met asks whether something at one of the places concerns Curfew: the terms of which one has to hold.
func (p *places) met(at node) []string {
	var metadata []node
	var terms []string
	p.collect(at, &metadata, &terms)
	if len(metadata) > 0 {
		terms = append([]string{keyed(metadata)}, terms...)
	}
	return terms
}

func (p *places) collect(at node, metadata *[]node, terms *[]string) {
	if p.keys {
		*metadata = append(*metadata, at.field("metadata"))
	}
	if p.presence {
		*terms = append(*terms, at.present())
	}
	for _, part := range slices.Sorted(maps.Keys(p.below)) {
		below := p.below[part]
		if part == "*" {
			*terms = append(*terms, at.each(func(item node) string { return strings.Join(below.met(item), " || ") }))
			continue
		}
		below.collect(at.field(part), metadata, terms)
	}
}

// differ asks whether an update changes what is at one of the places. Inside a list no item can be told to have become another,
// so that the list is compared as a whole.
func differ(paths []policy.FieldPath) []string {
	var out []string
	for _, path := range paths {
		if star := slices.Index(path, "*"); star >= 0 {
			path = path[:star]
		}
		was, is := node{text: "oldObject"}, node{text: "object"}
		for _, part := range path {
			was, is = was.field(part), is.field(part)
		}
		if term := is.text + " != " + was.text; !slices.Contains(out, term) {
			out = append(out, term)
		}
	}
	return out
}
