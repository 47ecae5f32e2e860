package rules

import (
	"fmt"
	"strings"

	"curfew.dev/curfew/policy"
)

// unusableRuntime warns that the runtime that decides the TTL does not exist or has a TTL that
// cannot be read, so that the object is kept. For an unreadable deadline of the runtime see
// unusableDefault.
var unusableRuntime = Rule{
	Name:  "unusable-runtime",
	InUse: []string{RuntimeReference},
	Check: func(s *Subject) []policy.Finding {
		if s.IsTemplate() {
			return nil
		}
		step := runtimeStep(s.Facts, s.Scope)
		if step == nil {
			return nil
		}
		runtime := s.Scope.Runtime
		switch {
		case runtime.Err != nil:
			return []policy.Finding{{Field: runtime.Path, Severity: policy.Warn, Value: runtime.Err.Error(),
				Message: fmt.Sprintf("%s: this %s stays", strings.TrimPrefix(runtime.Err.Error(), runtime.Path+": "), s.Profile.Kind.Kind)}}
		case runtime.Missing:
			return []policy.Finding{{Field: runtime.Path, Severity: policy.Warn, Value: runtime.Name,
				Message: fmt.Sprintf("runtime %q does not exist: this %s stays until it does and says a TTL", runtime.Name, s.Profile.Kind.Kind)}}
		}
		var out []policy.Finding
		for _, setting := range step.Settings {
			if setting.Err != nil {
				out = append(out, policy.Finding{Field: runtime.Path, Severity: policy.Warn, Value: setting.Path + setting.Text,
					Message: fmt.Sprintf("runtime %q has %q in %s, which cannot be read: fix it; until then this %s stays", runtime.Name, policy.Shorten(setting.Text), setting.Path, s.Profile.Kind.Kind)})
			}
		}
		return out
	},
}
