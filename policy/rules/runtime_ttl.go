package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// runtimeTTL warns that a TTL is ignored because the runtime that the object uses says another: platform policy that the
// object cannot override.
//
// Fields: the native TTL and metadata.annotations[curfew.dev/ttl-after-*] of what refers to a runtime, such as a TrainJob.
var runtimeTTL = Rule{
	Name: "runtime-ttl",
	Check: func(s *Subject) []policy.Finding {
		if !overruled(s) {
			return nil
		}
		var out []policy.Finding
		own, runtime := s.TTLs(), s.Scope.Runtime
		for _, setting := range own.Settings() {
			if setting.Err != nil {
				continue
			}
			for _, outcome := range []policy.Outcome{policy.Succeeded, policy.Failed} {
				if own.For(outcome) != setting {
					continue
				}
				if says, differs := told(runtime.TTL.For(outcome), setting); differs {
					out = append(out, s.warn(setting.Path, setting.Text,
						fmt.Sprintf("%s is ignored: runtime %q says %s; remove it", setting.TTL, runtime.Name, says)))
					break
				}
			}
		}
		return out
	},
}

// overruled reports whether the object's own TTL is ignored, because its runtime decides.
func overruled(s *Subject) bool {
	return !s.IsTemplate() && runtimeSpeaks(s.Scope) && s.ForeignManager() == ""
}

// actsOnItself reports whether a TTL that the subject states can make it go: what never finishes has none, and where a runtime decides, only the
// kind's own controller goes by a native field.
func actsOnItself(s *Subject) bool {
	return s.Profile.Finishable() && (!overruled(s) || len(s.TTLs().Natives()) > 0)
}

// runtimeSpeaks reports whether a runtime decides the TTL of what uses it.
func runtimeSpeaks(scope *policy.Scope) bool {
	return scope != nil && scope.Runtime != nil && !scope.Runtime.Missing && !scope.Runtime.TTL.Empty()
}

// told is what a runtime says, and whether that differs from what the object says.
func told(runtime, own *policy.Setting) (string, bool) {
	switch {
	case runtime == nil:
		return "nothing for this outcome", true
	case runtime.Err != nil:
		return fmt.Sprintf("%q, which cannot be read", policy.Shorten(runtime.Text)), true
	default:
		return runtime.TTL.String(), runtime.TTL != own.TTL
	}
}
