package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// ownKind denies a TTL label on an object of Curfew's own kinds: Curfew never deletes those, and a
// policy that disappears would take its bounds with it.
var ownKind = Rule{
	Name:   "own-kind",
	Fields: labelFields,
	Check: func(s *Subject) {
		key, text, ok := s.Options.ttlLabel(s.Facts)
		if ok && s.OwnKind() {
			s.deny(policy.LabelPath(key), text, fmt.Sprintf("Curfew never deletes a %s by label: remove the label", s.Profile.Kind.Kind))
		}
	},
}
