package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/wellknown"
)

// readableValue denies values that cannot be read: the controller would keep the object forever
// (S6).
var readableValue = Rule{
	Name:   "readable-value",
	Fields: slices.Concat(ttlFields, podTTLField, deadlineField, annotations(wellknown.AnnotationProtect, wellknown.AnnotationBackfill)),
	InUse:  []string{NativeDeadline},
	Check: func(s *Subject) {
		for _, setting := range append(s.TTLs().Settings(), lifetime.Present(s.Deadline(), s.PodTTL())...) {
			if setting.Err != nil {
				s.deny(setting.Path, setting.Text, setting.Err.Error())
			}
		}
		switches := []string{wellknown.AnnotationProtect}
		if s.Profile.RuntimeOf != "" {
			switches = append(switches, wellknown.AnnotationBackfill)
		}
		for _, key := range switches {
			if text, ok := s.Annotations[key]; ok && text != "true" && text != "false" {
				s.deny(policy.AnnotationPath(key), text,
					fmt.Sprintf(`%q is neither "true" nor "false": use one of them`, quote.Shorten(text)))
			}
		}
	},
}
