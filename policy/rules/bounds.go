package rules

import (
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
		outer, enforced, all := s.Scope.OuterFor(s.Facts), s.Scope.EnforcedFor(s.Facts), s.Scope.BoundsFor(s.Facts)
		var out []policy.Finding
		for _, setting := range s.TTLs().Settings() {
			if setting.Err == nil && s.Profile.Finishable() {
				out = append(out, outside(s, setting, outer.CheckTTL(setting.TTL), enforced.CheckTTL(setting.TTL), all.CheckTTL(setting.TTL))...)
			}
		}
		if deadline := s.Deadline(); deadline != nil && deadline.Err == nil {
			out = append(out, outside(s, deadline, outer.CheckDeadline(deadline.TTL), enforced.CheckDeadline(deadline.TTL), all.CheckDeadline(deadline.TTL))...)
		}
		return out
	},
}

// outside says of a value how it lies outside of the bounds: those of policies that deny, these and the namespace's, and all of them.
// A policy's bound comes first, since the namespace's mode softens only the namespace's own. A bound that cannot be read is a
// warning: the author cannot fix that.
func outside(s *Subject, setting *policy.Setting, outer, enforced, all error) []policy.Finding {
	var out policy.Finding
	switch {
	case policy.Violated(outer):
		out = s.deny(setting.Path, setting.Text, outer.Error())
		out.Level = policy.LevelPolicy
	case policy.Violated(enforced):
		out = s.deny(setting.Path, setting.Text, enforced.Error())
		out.Level = policy.LevelNamespace
	case enforced != nil:
		out = s.warn(setting.Path, setting.Text, "cannot be checked, so the object will be kept: "+enforced.Error())
	case all != nil:
		out = s.warn(setting.Path, setting.Text, all.Error())
	default:
		return nil
	}
	return []policy.Finding{out}
}
