package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// ttlLabel warns of a TTL label that cannot be read (with --strict-labels it denies that, except in
// a template) or has no effect, and denies one outside the bounds. Where only the bounds of
// policies in mode Warn or DryRun are violated, it warns.
var ttlLabel = Rule{
	Name:   "ttl-label",
	Fields: labelFields,
	Check: func(s *Subject) {
		key, text, ok := s.Options.ttlLabel(s.Facts)
		if !ok || s.Inherited || s.OwnKind() {
			return
		}
		path := policy.LabelPath(key)
		label, err := lifetime.ParseLabel(key, text)
		switch {
		case err != nil && s.Options.StrictLabels && !s.IsTemplate():
			s.deny(path, text, err.Error())
			return
		case err != nil:
			s.warn(path, text, err.Error())
			return
		case s.Now.IsZero():
			return
		}
		check := func(set resolution.BoundSet) error {
			err := s.Scope.CheckLabel(label, s.createdOrNow(), set)
			if lifetime.Violated(err) && !label.At.IsZero() && !label.At.After(s.Now) {
				return fmt.Errorf("%s is in the past: use a later date", label)
			}
			return err
		}
		outside(s, &lifetime.Setting{Path: path, Text: text}, check)
		if check(resolution.EnforcedBounds) != nil || s.expired(label) {
			return // Rule expired-label names the brake as well.
		}
		if brake := s.brake(); brake != "" {
			s.warn(path, text, "has no effect: "+brake)
		}
	},
}
