package rules

import (
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// labelAsAnnotation warns of the TTL label among the annotations, where nothing reads it.
var labelAsAnnotation = Rule{
	Name:   "label-as-annotation",
	Fields: annotations(wellknown.LabelTTL),
	Check: func(s *Subject) {
		text, ok := s.Annotations[wellknown.LabelTTL]
		if !ok {
			return
		}
		fix := "set " + s.path(policy.LabelPath(wellknown.LabelTTL))
		if s.Profile.Finishable() {
			fix += ", or annotation " + wellknown.AnnotationTTL
		}
		s.warn(policy.AnnotationPath(wellknown.LabelTTL), text, "is a label, and has no effect as an annotation: "+fix)
	},
}
