package rules

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// refreshMargin is how far clocks may differ.
const refreshMargin = time.Minute

// refreshedAt denies a refresh of the TTL label that cannot be read, lies in the future or comes
// after a bound has ended: it would keep the object. It warns of one that changes nothing, or less
// than it should.
var refreshedAt = Rule{
	Name:   "refreshed-at",
	Fields: annotations(wellknown.AnnotationRefreshedAt),
	Beside: labelFields,
	Check: func(s *Subject) {
		text, ok := s.Annotations[wellknown.AnnotationRefreshedAt]
		if !ok {
			return
		}
		path := policy.AnnotationPath(wellknown.AnnotationRefreshedAt)
		clock, err := s.LabelClock()
		key, labelled, ok := s.Options.ttlLabel(s.Facts)
		label, unreadable := lifetime.ParseLabel(key, labelled)
		switch {
		case err != nil:
			s.deny(path, text, fmt.Sprintf("%q is not an RFC 3339 time: use one such as 2026-12-24T00:30:00Z", quote.Shorten(text)))
		case !s.Now.IsZero() && clock.After(s.Now.Add(refreshMargin)):
			s.deny(path, text, quote.Shorten(text)+" is more than a minute in the future: use the present time")
		case !ok || unreadable == nil && !label.At.IsZero():
			s.warn(path, text, fmt.Sprintf("has no effect without a duration in label %s: add one, or remove the annotation", key))
		case unreadable == nil && !s.Created.IsZero() && s.Scope != nil:
			if s.Operation == Update { // A new object counts from now, whatever times an exported manifest has.
				outside(s, &lifetime.Setting{Path: path, Text: text}, func(set resolution.BoundSet) error {
					return s.Scope.CheckRefresh(clock, s.Created, set)
				})
			}
			if expiry := s.Scope.LabelExpiry(label, s.Created, clock); expiry.Before(label.Expiry(clock)) {
				instant := expiry.UTC().Format(time.RFC3339)
				s.warn(path, text, fmt.Sprintf("the bounds count from the creation: the %s expires at %s", s.Profile.Kind.Kind, instant))
			}
		}
	},
}
