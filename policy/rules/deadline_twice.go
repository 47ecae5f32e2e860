package rules

import (
	"fmt"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// deadlineTwice denies a deadline annotation that differs from the native deadline beside it:
// Curfew and the kind's own controller would each enforce another one.
var deadlineTwice = Rule{
	Name:   "deadline-twice",
	Fields: deadlineField,
	Check: func(s *Subject) []Finding {
		text, ok := s.Annotations[wellknown.AnnotationActiveDeadline]
		// Where a deadline cannot change after creation, immutable-deadline judges updates.
		if s.Operation == Update && s.Profile.ImmutableDeadline {
			return nil
		}
		if !ok || s.IsTemplate() || !s.Profile.AnnotatedDeadline || s.Profile.RuntimeOf != "" || !s.NativeDeadline.Set {
			return nil
		}
		annotated, native := *s.Facts, s.Deadline()
		annotated.NativeDeadline = lifetime.NativeField{}
		own := annotated.Deadline()
		if own.Err != nil {
			return []Finding{s.deny(own.Path, own.Text, own.Err.Error())}
		}
		if native.Err != nil || own.TTL == native.TTL {
			return nil
		}
		return []Finding{s.deny(own.Path, text, fmt.Sprintf("%s differs from %s %s: set one of them, or both to the same", own.Shown(), native.Path, native.Shown()))}
	},
}
