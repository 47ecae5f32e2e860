package rules

import (
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
)

// createdOrNow is when the object was created. A manifest has no creation time.
func (s *Subject) createdOrNow() time.Time {
	if s.Created.IsZero() {
		return s.Now
	}
	return s.Created
}

// expiryOf counts from now for a new object, whatever times an exported manifest has.
func (s *Subject) expiryOf(label lifetime.TTLLabel) time.Time {
	if s.Operation == Create {
		return label.Expiry(s.Now)
	}
	clock, _ := s.LabelClock() // Rule refreshed-at reports a refresh that cannot be read.
	if clock.IsZero() {
		clock = s.Now
	}
	if s.Scope != nil {
		return s.Scope.LabelExpiry(label, s.createdOrNow(), clock)
	}
	return label.Expiry(clock)
}

func (s *Subject) expired(label lifetime.TTLLabel) bool { return !s.expiryOf(label).After(s.Now) }

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

// labelVerdict is what the controller decides by the label at this moment.
func (s *Subject) labelVerdict(key string) policy.Verdict {
	facts := *s.Facts
	facts.Created = s.createdOrNow()
	return judging.JudgeLabel(&facts, key, s.Scope, s.Now)
}
