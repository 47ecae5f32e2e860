package rules

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
)

// shortTTL warns of a TTL under which nobody gets to read logs or status.
//
// Fields: the native TTL, metadata.annotations[curfew.dev/ttl-after-*] and metadata.labels[curfew.dev/ttl] or its alias. Warned below:
// warnBelow (60s).
var shortTTL = Rule{
	Name: "short-ttl",
	Check: func(s *Subject) []policy.Finding {
		return append(shortAfterFinished(s), shortLabel(s)...)
	},
}

func shortAfterFinished(s *Subject) []policy.Finding {
	// What a default filled in was warned about where it was written.
	if s.Operation == Create && !s.IsTemplate() && filledInBy(s.Facts).Level != policy.LevelObject {
		return nil
	}
	// One that has no effect makes nothing go, and is told by a rule of its own.
	if s.Profile.RuntimeOf == "" && !actsOnItself(s) {
		return nil
	}
	var out []policy.Finding
	for _, setting := range s.TTLs().Settings() {
		what := "the " + s.Profile.Kind.Kind
		if user := s.Profile.RuntimeOf; user != "" {
			what = "a " + user + " that uses it"
		}
		out = append(out, short(s, setting, what)...)
	}
	return out
}

// shortLabel warns of a TTL label that gives the object less than warnBelow from its creation. A date was chosen by its author.
func shortLabel(s *Subject) []policy.Finding {
	key, text, ok := s.Options.ttlLabel(s.Facts)
	if !ok || s.Inherited || s.brake() != "" {
		return nil // One that has no effect is reported by rule ttl-label.
	}
	label, err := policy.ParseLabel(key, text)
	limit := s.warnBelow()
	if err != nil || !label.At.IsZero() || label.After == 0 || label.After >= limit {
		return nil // A label of 0 is over when it is set, which rule ttl-label reports.
	}
	if s.Operation == Create && !s.IsTemplate() && s.Scope != nil && policy.DefaultedLabel(s.Facts, s.Scope, s.Now) != nil {
		return nil // The policy that gives it was warned about.
	}
	what := "the " + s.Profile.Kind.Kind
	if s.IsTemplate() {
		what = "each " + s.Profile.Kind.Kind + " created from this template"
	}
	return []policy.Finding{s.warn(policy.LabelPath(key), text, shortLabelMessage(label, limit, what))}
}

func shortLabelMessage(label policy.TTLLabel, limit time.Duration, what string) string {
	return fmt.Sprintf("%s is under %ds: %s is deleted %[1]s after its creation; use %[2]ds or more", label, int(limit/time.Second), what)
}

// warnBelow is what the policy that speaks first says, else the setting of this Curfew.
func (s *Subject) warnBelow() time.Duration {
	if s.Scope != nil {
		for _, said := range s.Scope.Policies {
			if said.WarnBelow > 0 {
				return said.WarnBelow
			}
		}
	}
	return s.Options.warnBelow()
}

func short(s *Subject, setting *policy.Setting, what string) []policy.Finding {
	message := shortMessage(setting, s.warnBelow(), what)
	if message == "" {
		return nil
	}
	return []policy.Finding{s.warn(setting.Path, setting.Text, message)}
}

func shortMessage(setting *policy.Setting, limit time.Duration, what string) string {
	if setting.Err != nil || setting.TTL.Never || setting.TTL.After >= limit {
		return ""
	}
	return fmt.Sprintf("%s is under %ds: %s may be gone before anyone reads its logs; use %[2]ds or more", setting.TTL, int(limit/time.Second), what)
}
