package rules

import (
	"curfew.dev/curfew/policy"
)

// bounds refuses explicit values outside of what the namespace and the platform allow.
//
// Restricted fields: metadata.annotations[curfew.dev/ttl-after-*, active-deadline], the native TTL and deadline.
// Allowed values: between min-ttl and max-ttl, min-deadline and max-deadline; "never" only without a max-ttl.
var bounds = Rule{
	Name: "bounds",
	Check: func(s *Subject) []policy.Finding {
		limits := s.Scope.Bounds()
		var out []policy.Finding
		for _, setting := range s.TTLs().Settings() {
			if setting.Err != nil {
				continue
			}
			if err := limits.CheckTTL(setting.TTL); err != nil {
				out = append(out, s.deny(setting.Path, setting.Text, err.Error()))
			}
		}
		if deadline := s.Deadline(); deadline != nil && deadline.Err == nil {
			if err := limits.CheckDeadline(deadline.TTL.After); err != nil {
				out = append(out, s.deny(deadline.Path, deadline.Text, err.Error()))
			}
		}
		return out
	},
}
