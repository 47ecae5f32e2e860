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
	Check: func(s *Subject) {
		text, ok := s.Annotations[wellknown.AnnotationActiveDeadline]
		// Where a deadline cannot change after creation, immutable-deadline judges updates.
		if s.Operation == Update && s.Profile.ImmutableDeadline {
			return
		}
		if !ok || s.IsTemplate() || !s.Profile.AnnotatedDeadline || s.Profile.RuntimeOf != "" || !s.NativeDeadline.Set {
			return
		}
		annotated, native := *s.Facts, s.Deadline()
		annotated.NativeDeadline = lifetime.NativeField{}
		own := annotated.Deadline()
		switch {
		case own.Err != nil:
			s.deny(own.Path, own.Text, own.Err.Error())
		case native.Err == nil && own.TTL != native.TTL:
			s.deny(own.Path, text, fmt.Sprintf("%s differs from %s %s: set one of them, or both to the same",
				own.Shown(), native.Path, native.Shown()))
		}
	},
}
