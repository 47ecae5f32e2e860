package rules

import (
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// ttlLabel warns of a TTL label that cannot be read (with --strict-labels it denies that, except in
// a template) or has no effect, and denies one outside the bounds. Where only the bounds of
// policies in mode Warn or DryRun are violated, it warns.
var ttlLabel = Rule{
	Name:   "ttl-label",
	Fields: labelFields,
	Check: func(s *Subject) []Finding {
		key, text, ok := s.Options.ttlLabel(s.Facts)
		if !ok || s.Inherited || s.OwnKind() {
			return nil
		}
		path := policy.LabelPath(key)
		label, err := lifetime.ParseLabel(key, text)
		switch {
		case err != nil && s.Options.StrictLabels && !s.IsTemplate():
			return []Finding{s.deny(path, text, err.Error())}
		case err != nil:
			return []Finding{s.warn(path, text, err.Error())}
		case s.Now.IsZero():
			return nil
		}
		check := func(set resolution.BoundSet) error { return s.Scope.CheckLabel(label, s.createdOrNow(), set) }
		out := outside(s, &lifetime.Setting{Path: path, Text: text}, check)
		if check(resolution.EnforcedBounds) != nil || s.expired(label) {
			return out // Rule expired-label names the brake as well.
		}
		if brake := s.brake(); brake != "" {
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
	brakes := judging.Brakes(s.Facts, s.Scope, s.Options.Controller)
	switch {
	case len(brakes) == 0:
		return ""
	case strings.HasPrefix(brakes[0].Message, "is "):
		return "the " + s.Profile.Kind.Kind + " " + brakes[0].Message
	default:
		return brakes[0].Message
	}
}
