package rules

import (
	"fmt"
	"strings"

	"curfew.dev/curfew/policy/quote"
)

// unusableRuntime warns that the runtime that decides the TTL does not exist or has a TTL that
// cannot be read, so that the object is kept. For an unreadable deadline of the runtime see
// unusableDefault.
var unusableRuntime = Rule{
	Name:  "unusable-runtime",
	InUse: []string{RuntimeReference},
	Check: func(s *Subject) {
		if s.IsTemplate() {
			return
		}
		step := runtimeStep(s.Facts, s.Scope)
		if step == nil {
			return
		}
		runtime, kind := s.Scope.Runtime, s.Profile.Kind.Kind
		switch {
		case runtime.Err != nil:
			why := runtime.Err.Error()
			s.warn(runtime.Path, why, fmt.Sprintf("%s: this %s stays", strings.TrimPrefix(why, runtime.Path+": "), kind))
			return
		case runtime.Missing:
			s.warn(runtime.Path, runtime.Name,
				fmt.Sprintf("runtime %q does not exist: this %s is kept until it exists and sets a TTL", runtime.Name, kind))
			return
		}
		for _, setting := range step.Settings {
			if setting.Err != nil {
				const unreadable = "runtime %q has %q in %s, which cannot be read: fix it; until then, this %s stays"
				s.warn(runtime.Path, setting.Path+setting.Text, fmt.Sprintf(unreadable, runtime.Name, quote.Shorten(setting.Text), setting.Path, kind))
			}
		}
	},
}
