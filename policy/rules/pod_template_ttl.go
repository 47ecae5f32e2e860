package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
)

// podTemplateTTL refuses a TTL inside a pod template: it would take single Pods out from under their owner.
//
// Restricted fields: <pod template>.metadata.annotations[curfew.dev/ttl-after-*], and a raw
// <pod template>.spec.ttlSecondsAfterFinished, which only the offline endpoint sees (the API server drops it).
// Allowed values: absent.
var podTemplateTTL = Rule{
	Name: "pod-template-ttl",
	Check: func(s *Subject) []policy.Finding {
		var out []policy.Finding
		for _, path := range s.Profile.PodTemplates {
			path.Walk(s.Object, func(at string, value any) {
				template, ok := value.(map[string]any)
				if !ok {
					return
				}
				fix := templateFix(s)
				for _, key := range policy.TTLAnnotations {
					if text, ok := annotationsPath.Child(key).Get(template); ok {
						out = append(out, s.deny(at+"."+policy.AnnotationPath(key), fmt.Sprint(text),
							"a pod template cannot have a TTL: "+fix))
					}
				}
				if raw, ok := rawTTLPath.Get(template); ok {
					out = append(out, s.deny(at+"."+rawTTLPath.String(), fmt.Sprint(raw), "a pod template cannot have a TTL: "+fix))
				}
			})
		}
		return slices.Clip(out)
	},
}

var (
	annotationsPath = policy.FieldPath{"metadata", "annotations"}
	rawTTLPath      = policy.FieldPath{"spec", "ttlSecondsAfterFinished"}
)

func templateFix(s *Subject) string {
	switch {
	case s.Profile.RuntimeOf != "":
		return fmt.Sprintf("set %s on the %s", policy.AnnotationPath(policy.AnnotationTTL), s.Profile.Kind.Kind)
	// The object's own TTL first: one on the Jobs inside a JobSet would take them away under it.
	case s.Profile.TTL != nil:
		return "set " + s.path(s.Profile.TTL.String())
	case len(s.Profile.Templates) > 0 && s.Profile.Templates[0].Profile.TTL != nil:
		inner := s.Profile.Templates[0]
		return fmt.Sprintf("set %s.%s", inner.Path, inner.Profile.TTL)
	case s.Profile.Finishable():
		return fmt.Sprintf("set %s on the %s", s.path(policy.AnnotationPath(policy.AnnotationTTL)), s.Profile.Kind.Kind)
	default:
		return "remove it; what a " + s.Profile.Kind.Kind + " runs does not finish"
	}
}
