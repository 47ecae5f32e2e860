package rules

import (
	"curfew.dev/curfew/policy"
)

// labelAsAnnotation warns of the TTL label where nothing reads it: among the annotations. The author believes that the object goes.
//
// Field: metadata.annotations[curfew.dev/ttl]. Allowed values: absent.
var labelAsAnnotation = Rule{
	Name: "label-as-annotation",
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
