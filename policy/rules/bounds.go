package rules

import (
	"slices"

	"curfew.dev/curfew/policy"
)

// bounds denies values outside the bounds of the namespace and the policies. Where only the bounds
// of policies with action Warn are broken, it warns.
var bounds = Rule{
	Name:   "bounds",
	Fields: slices.Concat(ttlFields, deadlineField),
	InUse:  []string{NativeDeadline},
	Check: func(s *Subject) []policy.Finding {
		// A runtime is above all bounds: it is a setting of the platform.
		if s.Profile.RuntimeOf != "" {
			return nil
		}
		var out []policy.Finding
		for _, setting := range s.TTLs().Settings() {
			if setting.Err == nil && s.Profile.Finishable() {
				out = append(out, outside(s, setting, func(set policy.BoundSet) error { return s.Scope.BoundsFor(s.Facts, set).CheckTTL(setting.TTL) })...)
			}
		}
		if deadline := s.Deadline(); deadline != nil && deadline.Err == nil {
			out = append(out, outside(s, deadline, func(set policy.BoundSet) error { return s.Scope.Bounds(set).CheckDeadline(deadline.TTL) })...)
		}
		return out
	},
}

// outside is the finding about a value outside of some bounds. Those of policies come first, since
// a namespace's mode softens only its own. An unreadable bound is a warning, because the author of
// the value cannot fix it.
func outside(s *Subject, setting *policy.Setting, check func(policy.BoundSet) error) []policy.Finding {
	outer, enforced := check(policy.OuterBounds), check(policy.EnforcedBounds)
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
	default:
		all := check(policy.AllBounds)
		if all == nil {
			return nil
		}
		out = s.warn(setting.Path, setting.Text, all.Error())
	}
	return []policy.Finding{out}
}
