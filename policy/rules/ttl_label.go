package rules

import (
	"fmt"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
)

// ttlLabel warns of a TTL label that cannot be read, is expired or has no effect, and denies one
// outside the bounds. With --strict-labels it denies the first two as well, except in a template.
// Where only the bounds of policies in mode Warn or DryRun are violated, it warns.
var ttlLabel = Rule{
	Name:   "ttl-label",
	Fields: labelFields,
	Check: func(s *Subject) []policy.Finding {
		key, text, ok := s.Options.ttlLabel(s.Facts)
		if !ok || s.Inherited {
			return nil
		}
		path := policy.LabelPath(key)
		complain := s.warn
		if s.Options.StrictLabels && !s.IsTemplate() {
			complain = s.deny
		}
		label, err := policy.ParseLabel(key, text)
		if err != nil {
			return []policy.Finding{complain(path, text, err.Error())}
		}
		if s.Now.IsZero() {
			return nil
		}
		facts := *s.Facts
		if facts.Created.IsZero() {
			facts.Created = s.Now
		}
		// The bounds first: a label outside of them keeps the object, expired or not.
		check := func(set policy.BoundSet) error { return s.Scope.CheckLabel(label, facts.Created, set) }
		out := outside(s, &policy.Setting{Path: path, Text: text}, check)
		if check(policy.EnforcedBounds) != nil {
			return out
		}
		brake := s.brake()
		if expiry := label.Expiry(facts.Created); !expiry.After(s.Now) {
			return []policy.Finding{complain(path, text, fmt.Sprintf("%s was over at %s: %s; use a later one",
				label, expiry.UTC().Format(time.RFC3339), s.whenOver(&facts, key, brake)))}
		}
		if brake != "" {
			out = append(out, s.warn(path, text, "has no effect: "+brake))
		}
		return out
	},
}

// brake is the reason why the object is kept despite its label, as a sentence; "" where it is not.
// Another rule warns that the controller may not delete the object.
func (s *Subject) brake() string {
	if s.IsTemplate() {
		return ""
	}
	brakes := policy.Brakes(s.Facts, s.Scope, s.Options.Controller)
	switch {
	case len(brakes) == 0:
		return ""
	case strings.HasPrefix(brakes[0].Message, "is "):
		return "the " + s.Profile.Kind.Kind + " " + brakes[0].Message
	default:
		return brakes[0].Message
	}
}

// whenOver says what happens to an object whose label is expired. The controller asks the same
// judge.
func (s *Subject) whenOver(facts *policy.Facts, key, brake string) string {
	kind := s.Profile.Kind.Kind
	if s.IsTemplate() {
		return "each " + kind + " created from this template would be over from the start"
	}
	verdict := policy.JudgeLabel(facts, key, s.Scope, s.Now)
	switch {
	case brake != "":
		return "Curfew would delete the " + kind + " at once, but " + brake
	case s.Access.Controller == No:
		return "Curfew would delete the " + kind + " at once, but may not"
	case verdict.Action == policy.Delete:
		return "Curfew deletes the " + kind + " at once"
	case verdict.Err != nil:
		return "Curfew keeps the " + kind + ", as " + verdict.Reason
	default:
		return "Curfew keeps the " + kind + ", as it " + verdict.Reason
	}
}
