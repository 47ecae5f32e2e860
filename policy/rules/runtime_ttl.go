package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
)

// runtimeTTL warns that a TTL is ignored, because the runtime that the object uses decides and sets
// another one.
var runtimeTTL = Rule{
	Name:   "runtime-ttl",
	Fields: ttlFields,
	Check: func(s *Subject) []Finding {
		if !overruled(s) {
			return nil
		}
		var out []Finding
		own, runtime := s.TTLs(), s.Scope.Runtime
		for _, setting := range own.Settings() {
			if setting.Err != nil {
				continue
			}
			for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
				if own.For(outcome) != setting {
					continue
				}
				if says, differs := runtimeSays(runtime.TTL.For(outcome), setting); differs {
					out = append(out, s.warn(setting.Path, setting.Text,
						fmt.Sprintf("%s is ignored: runtime %q sets %s; remove it", setting.Shown(), runtime.Name, says)))
					break
				}
			}
		}
		return out
	},
}

// overruled reports whether the object's own TTL is ignored, because its runtime decides.
func overruled(s *Subject) bool { return !s.IsTemplate() && runtimeDecides(s.Facts, s.Scope) }

// actsOnItself reports whether a TTL that the subject states can delete it. A kind that never
// finishes has none, and where a runtime decides, only the kind's own controller acts on a native
// field.
func actsOnItself(s *Subject) bool {
	return s.Profile.Finishable() && (!overruled(s) || len(s.TTLs().Natives()) > 0)
}

// runtimeDecides reports whether a runtime that exists decides the TTL of an object.
func runtimeDecides(facts *policy.Facts, scope *resolution.Scope) bool {
	step := runtimeStep(facts, scope)
	return step != nil && !scope.Runtime.Missing
}

// runtimeStep is the step of a runtime that decides the TTL of an object; nil where none does.
func runtimeStep(facts *policy.Facts, scope *resolution.Scope) *resolution.Step {
	if scope == nil || scope.Runtime == nil {
		return nil
	}
	_, trace := resolution.ResolveTraced(facts, scope)
	if step := resolution.Decider(trace.TTL); step != nil && step.Source.Level == lifetime.LevelRuntime {
		return step
	}
	return nil
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
