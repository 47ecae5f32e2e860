package rules

import (
	"slices"

	"curfew.dev/curfew/policy"
)

// bounds denies values outside the bounds of the namespace and the policies. Where only the bounds of policies with action Warn are
// broken, it warns.
var bounds = Rule{
	Name:   "bounds",
	Fields: slices.Concat(ttlFields, deadlineField),
	InUse:  []string{NativeDeadline},
	Check: func(s *Subject) []policy.Finding {
		// A runtime is above all bounds: it is a setting of the platform.
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

// outside is the finding about a value that lies outside the bounds: outer are those of policies that deny, enforced the namespace's
// as well, all those that only warn too. The outer come first, since a namespace's mode softens only its own. An unreadable bound
// is a warning, because the author of the value cannot fix it.
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
