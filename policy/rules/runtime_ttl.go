package rules

import (
	"fmt"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
)

// runtimeTTL warns that a TTL is ignored, because the runtime that the object uses decides and sets
// another one.
var runtimeTTL = Rule{
	Name:   "runtime-ttl",
	Fields: ttlFields,
	Check: func(s *Subject) {
		if !overruled(s) {
			return
		}
		own, runtime := s.TTLs(), s.Scope.Runtime
		for _, setting := range own.Settings() {
			for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
				if own.For(outcome) != setting || setting.Err != nil {
					continue
				}
				if says, differs := runtimeSays(runtime.TTL.For(outcome), setting); differs {
					s.warn(setting.Path, setting.Text,
						fmt.Sprintf("%s is ignored: runtime %q sets %s; remove it", setting.Shown(), runtime.Name, says))
					break
				}
			}
		}
	},
}

// runtimeSays is what a runtime sets, as messages write it, and whether that differs from what the
// object sets.
func runtimeSays(runtime, own *lifetime.Setting) (text string, differs bool) {
	switch {
	case runtime == nil:
		return "nothing for this outcome", true
	case runtime.Err != nil:
		return fmt.Sprintf("%q, which cannot be read", quote.Shorten(runtime.Text)), true
	default:
		return runtime.TTL.String(), runtime.TTL != own.TTL
	}
}
