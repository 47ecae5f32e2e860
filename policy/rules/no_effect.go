package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// noEffect warns of a key of Curfew's that means nothing on this kind.
var noEffect = Rule{
	Name:   "no-effect",
	Fields: append(annotations(wellknown.LifetimeAnnotations...), podTTLField...),
	Beside: append(annotations(wellknown.NamespaceAnnotations...), fieldsOf(LabelField, wellknown.NamespaceAnnotations...)...),
	Check: func(s *Subject) {
		if s.Inherited {
			return
		}
		kind := s.Profile.Kind.Kind
		for _, key := range wellknown.TTLAnnotations {
			if text, ok := s.Annotations[key]; ok && !s.Profile.Finishable() && s.Profile.RuntimeOf == "" {
				s.warn(policy.AnnotationPath(key), text, "has no effect on "+a(kind)+s.ttlInstead(key))
			}
		}
		if text, ok := s.Annotations[wellknown.AnnotationActiveDeadline]; ok && !s.Profile.AnnotatedDeadline && s.Profile.RuntimeOf == "" {
			fix := "remove it"
			switch {
			case s.Profile.Deadline != nil:
				fix = "set " + s.path(s.Profile.Deadline.String())
			case s.IsNamespace():
				fix = "for the objects in it set " + wellknown.AnnotationDefaultDeadline
			}
			s.warn(policy.AnnotationPath(wellknown.AnnotationActiveDeadline), text,
				"has no effect on "+a(kind)+": "+fix)
		}
		if text, ok := s.Annotations[wellknown.AnnotationPodTTL]; ok && s.PodTTL() == nil {
			s.warn(policy.AnnotationPath(wellknown.AnnotationPodTTL), text, "has no effect on "+a(kind)+": "+s.podTTLInstead())
		}
		if !s.IsNamespace() {
			misplaced(s)
		}
	},
}

// misplaced are the findings about annotations of a Namespace on another kind.
func misplaced(s *Subject) {
	for _, key := range wellknown.NamespaceAnnotations {
		if key == wellknown.AnnotationBackfill && s.Profile.RuntimeOf != "" {
			continue
		}
		fix := "set it on a Namespace"
		if s.Namespace != "" {
			fix = fmt.Sprintf("set it on namespace %q", s.Namespace)
		}
		for _, own := range wellknown.TTLAnnotations {
			if defaultOf[own] == key && s.Profile.Finishable() {
				fix += ", or " + own + " on the " + s.Profile.Kind.Kind
			}
		}
		message := fmt.Sprintf("has no effect on %s, only on a Namespace: %s", a(s.Profile.Kind.Kind), fix)
		if text, ok := s.Annotations[key]; ok {
			s.warn(policy.AnnotationPath(key), text, message)
		}
		if text, ok := s.Labels[key]; ok {
			s.warn(policy.LabelPath(key), text, message)
		}
	}
}
