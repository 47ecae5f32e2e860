package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// runtimeDeadline warns that a deadline is ignored because the runtime that the object uses says another: platform policy that the
// object cannot override. A native deadline that is shorter is not: the kind's own controller acts on it first.
//
// Fields: the native deadline and metadata.annotations[curfew.dev/active-deadline] of what refers to a runtime, such as a TrainJob.
var runtimeDeadline = Rule{
	Name: "runtime-deadline",
	Check: func(s *Subject) []policy.Finding {
		if s.IsTemplate() || s.Scope == nil || s.Scope.Runtime == nil || s.Scope.Runtime.Deadline == nil || s.ForeignManager() != "" {
			return nil
		}
		own, runtime := s.Deadline(), s.Scope.Runtime
		if own == nil || own.Err != nil {
			return nil
		}
		says, differs := told(runtime.Deadline, own)
		first := s.NativeDeadline.Set && runtime.Deadline.Err == nil && !own.TTL.Never && own.TTL.After < runtime.Deadline.TTL.After
		if !differs || first {
			return nil
		}
		return []policy.Finding{s.warn(own.Path, own.Text, fmt.Sprintf("%s is ignored: runtime %q says %s; remove it", own.TTL, runtime.Name, says))}
	},
}
