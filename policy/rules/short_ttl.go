package rules

import (
	"fmt"
	"slices"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// shortTTL warns of a TTL under warnBelow (60s): it leaves no time to read the logs or the status
// before Curfew deletes the object.
var shortTTL = Rule{
	Name:   "short-ttl",
	Fields: append(slices.Clone(lifetimeFields), podTTLField...),
	Check: func(s *Subject) {
		shortAfterFinished(s)
		shortLabel(s)
		if pods := s.PodTTL(); pods != nil {
			short(s, pods, "a finished Pod of the Job")
		}
	},
}

func shortAfterFinished(s *Subject) {
	// The author of a default was warned.
	if s.Operation == Create && !s.IsTemplate() && filledInBy(s.Facts).Level != lifetime.LevelObject {
		return
	}
	// Another rule warns of a TTL that has no effect.
	if s.Profile.RuntimeOf == "" && !actsOnItself(s) {
		return
	}
	what, settings := "the "+s.Profile.Kind.Kind, s.TTLs().Settings()
	if user := s.Profile.RuntimeOf; user != "" {
		what = "a " + user + " that uses it"
		for _, path := range s.Profile.RuntimeTTLs {
			settings = append(settings, policy.NativeField(s.Object, path).Setting(path))
		}
	}
	for _, setting := range settings {
		short(s, setting, what)
	}
}

// shortLabel warns of a TTL label with a duration under warnBelow. A date is deliberate.
func shortLabel(s *Subject) {
	key, text, ok := s.Options.ttlLabel(s.Facts)
	if !ok || s.Inherited || s.brake() != "" {
		return // Rule ttl-label warns of one that has no effect.
	}
	label, err := lifetime.ParseLabel(key, text)
	limit := s.warnBelow()
	if err != nil || !label.At.IsZero() || label.After == 0 || label.After >= limit {
		return // A label of 0 is expired when it is set, which rule ttl-label reports.
	}
	if s.Operation == Create && !s.IsTemplate() && s.Scope != nil && resolution.DefaultedLabel(s.Facts, s.Scope, s.Now) != nil {
		return // The author of the policy was warned.
	}
	what := "the " + s.Profile.Kind.Kind
	if s.IsTemplate() {
		what = "each " + s.Profile.Kind.Kind + " created from this template"
	}
	s.warn(policy.LabelPath(key), text, shortLabelMessage(label, limit, what))
}

func shortLabelMessage(label lifetime.TTLLabel, limit time.Duration, what string) string {
	return fmt.Sprintf("%s is under %ds: %s is deleted %[1]s after its creation; use %[2]ds or more", label, int(limit/time.Second), what)
}

func short(s *Subject, setting *lifetime.Setting, what string) {
	if message := shortMessage(setting, s.warnBelow(), what); message != "" {
		s.warn(setting.Path, setting.Text, message)
	}
}

func shortMessage(setting *lifetime.Setting, limit time.Duration, what string) string {
	if !setting.Ends() || setting.TTL.After >= limit {
		return ""
	}
	return fmt.Sprintf("%s is under %ds: %s may be deleted before anyone reads its logs; use %[2]ds or more",
		setting.Shown(), int(limit/time.Second), what)
}
