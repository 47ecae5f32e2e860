package rules

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
)

// shortTTL warns of a TTL under which nobody gets to read logs or status.
//
// Fields: the native TTL and metadata.annotations[curfew.dev/ttl-after-*]. Warned below: warnBelow (60s).
var shortTTL = Rule{
	Name: "short-ttl",
	Check: func(s *Subject) []policy.Finding {
		// What a default filled in was warned about where it was written.
		if s.Operation == Create && filledInBy(s.Facts, s.Scope).Level != policy.LevelObject {
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
	},
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
