package rules

import (
	"curfew.dev/curfew/policy"
)

// labelAsAnnotation warns of the TTL label among the annotations, where nothing reads it.
var labelAsAnnotation = Rule{
	Name:   "label-as-annotation",
	Fields: annotations(policy.LabelTTL),
	Check: func(s *Subject) []policy.Finding {
		text, ok := s.Annotations[policy.LabelTTL]
		if !ok {
			return nil
		}
		fix := "set " + s.path(policy.LabelPath(policy.LabelTTL))
		if s.Profile.Finishable() {
			fix += ", or annotation " + policy.AnnotationTTL
		}
		return []policy.Finding{s.warn(policy.AnnotationPath(policy.LabelTTL), text, "is a label, and has no effect as an annotation: "+fix)}
	},
}
