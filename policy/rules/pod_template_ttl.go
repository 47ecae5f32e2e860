package rules

import (
	"fmt"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/wellknown"
)

// podTemplateTTL denies a TTL or deadline inside a pod template: Curfew would delete or stop the
// Pods one by one, and their controller would create them again. Only the offline endpoint sees the
// raw field, which the API server drops.
var podTemplateTTL = Rule{
	Name:   "pod-template-ttl",
	Fields: append(below(InPodTemplate), InPodTemplate+AnnotationField(wellknown.AnnotationPodTTL), RawTTL),
	Check: func(s *Subject) {
		for _, path := range s.Profile.PodTemplates {
			path.Walk(s.Object, func(found string, value any) {
				template, ok := value.(map[string]any)
				if !ok {
					return
				}
				metadata, _ := template["metadata"].(map[string]any)
				for _, key := range s.lifetimeKeys(metadata, wellknown.AnnotationPodTTL) {
					s.deny(found+".metadata."+key.path, key.text, "a pod template cannot have a "+key.noun+": "+key.fix)
				}
				if raw, ok := rawTTLPath.Get(template); ok {
					s.deny(found+"."+rawTTLPath.String(), fmt.Sprint(raw), "a pod template cannot have a TTL: "+s.instead(wellknown.AnnotationTTL))
				}
			})
		}
	},
}

var rawTTLPath = fieldpath.FieldPath{"spec", "ttlSecondsAfterFinished"}
