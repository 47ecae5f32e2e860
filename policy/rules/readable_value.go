package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// readableValue refuses what cannot be read: the controller would keep the object for good (S6).
//
// Restricted fields: metadata.annotations[curfew.dev/ttl-after-*, active-deadline, protect], the native TTL and deadline.
// Allowed values: durations (TTLs also "never"); at least 1s for a deadline; true|false for protect.
var readableValue = Rule{
	Name: "readable-value",
	Check: func(s *Subject) []policy.Finding {
		var out []policy.Finding
		settings := s.TTLs().Settings()
		if deadline := s.Deadline(); deadline != nil {
			settings = append(settings, deadline)
		}
		for _, setting := range settings {
			if setting.Err != nil {
				out = append(out, s.deny(setting.Path, setting.Text, setting.Err.Error()))
			}
		}
		if text, ok := s.Annotations[policy.AnnotationProtect]; ok && text != "true" && text != "false" {
			out = append(out, s.deny(policy.AnnotationPath(policy.AnnotationProtect), text,
				fmt.Sprintf(`%q is neither "true" nor "false": use one of them`, policy.Shorten(text))))
		}
		return out
	},
}
