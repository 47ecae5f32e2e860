package rules

import (
	"errors"

	"curfew.dev/curfew/policy"
)

// bounds refuses explicit values outside of what the namespace and the platform allow.
//
// Restricted fields: metadata.annotations[curfew.dev/ttl-after-*, active-deadline], the native TTL and deadline.
// Allowed values: between min-ttl and max-ttl, min-deadline and max-deadline; "never" only without a max-ttl.
// What breaks nothing but the bounds of policies with action Warn is warned about.
var bounds = Rule{
	Name: "bounds",
	Check: func(s *Subject) []policy.Finding {
		// A runtime is above all bounds: it is the platform that speaks there.
		if s.Profile.RuntimeOf != "" {
			return nil
		}
		enforced, all := s.Scope.EnforcedFor(s.Facts), s.Scope.BoundsFor(s.Facts)
		var out []policy.Finding
		for _, setting := range s.TTLs().Settings() {
			if setting.Err != nil || !s.Profile.Finishable() {
				continue
			}
			if err := enforced.CheckTTL(setting.TTL); err != nil {
				out = append(out, outside(s, setting, err))
			} else if err := all.CheckTTL(setting.TTL); err != nil {
				out = append(out, s.warn(setting.Path, setting.Text, err.Error()))
			}
		}
		if deadline := s.Deadline(); deadline != nil && deadline.Err == nil {
			if err := enforced.CheckDeadline(deadline.TTL); err != nil {
				out = append(out, outside(s, deadline, err))
			} else if err := all.CheckDeadline(deadline.TTL); err != nil {
				out = append(out, s.warn(deadline.Path, deadline.Text, err.Error()))
			}
		}
		return out
	},
}

// outside refuses a value for being outside, and only warns where the bound is at fault: the author cannot mend that.
func outside(s *Subject, setting *policy.Setting, err error) policy.Finding {
	if unreadable := (*policy.UnreadableBoundError)(nil); errors.As(err, &unreadable) {
		return s.warn(setting.Path, setting.Text, "cannot be checked, so the object will be kept: "+err.Error())
	}
	return s.deny(setting.Path, setting.Text, err.Error())
}
