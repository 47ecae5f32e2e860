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
	Check: func(s *Subject) []Finding {
		if s.Inherited {
			return nil
		}
		var out []Finding
		kind := s.Profile.Kind.Kind
		for _, key := range wellknown.TTLAnnotations {
			if text, ok := s.Annotations[key]; ok && !s.Profile.Finishable() && s.Profile.RuntimeOf == "" {
				out = append(out, s.warn(policy.AnnotationPath(key), text, "has no effect on a "+kind+s.ttlInstead(key)))
			}
		}
		if text, ok := s.Annotations[wellknown.AnnotationActiveDeadline]; ok && !s.Profile.AnnotatedDeadline && s.Profile.RuntimeOf == "" {
			fix := "remove it"
			switch {
			case s.Profile.Deadline != nil:
				fix = "set " + s.path(s.Profile.Deadline.String())
			case isNamespace(s.Facts):
				fix = "for the objects in it set " + wellknown.AnnotationDefaultDeadline
			}
			out = append(out, s.warn(policy.AnnotationPath(wellknown.AnnotationActiveDeadline), text,
				"has no effect on a "+kind+": "+fix))
		}
		if text, ok := s.Annotations[wellknown.AnnotationPodTTL]; ok && s.PodTTL() == nil {
			out = append(out, s.warn(policy.AnnotationPath(wellknown.AnnotationPodTTL), text, "has no effect on a "+kind+": "+s.podTTLInstead()))
		}
		if !isNamespace(s.Facts) {
			out = append(out, misplaced(s)...)
		}
		return out
	},
}

// ttlInstead says why a TTL annotation has no effect, with the fix.
func (s *Subject) ttlInstead(key string) string {
	switch {
	case isNamespace(s.Facts):
		return fmt.Sprintf(": for the objects in it set %s, for the Namespace itself label %s", defaultOf[key], wellknown.LabelTTL)
	case s.Profile.Unknown:
		return ": no KindProfile says when it finishes; use label " + wellknown.LabelTTL
	default:
		return ", which never finishes: remove it"
	}
}

// podTTLInstead is where a TTL for the finished Pods of Jobs belongs.
func (s *Subject) podTTLInstead() string {
	path := policy.AnnotationPath(wellknown.AnnotationPodTTL)
	switch of := s.Profile.Templates; {
	case isNamespace(s.Facts):
		return "for the Pods in it set " + wellknown.AnnotationDefaultPodTTL
	case s.Profile.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind():
		return "set " + s.path(path) + " on the Job"
	case len(of) > 0 && of[0].Profile.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind():
		return fmt.Sprintf("set %s.%s", of[0].Path, path)
	case s.IsPod():
		return "set " + wellknown.AnnotationTTL + ", or " + wellknown.AnnotationPodTTL + " on its Job"
	default:
		return "it belongs on a Job"
	}
}

// defaultOf is the annotation of a Namespace that gives the objects in it the TTL of an annotation.
var defaultOf = map[string]string{
	wellknown.AnnotationTTL: wellknown.AnnotationDefaultTTL, wellknown.AnnotationTTLSucceeded: wellknown.AnnotationDefaultTTLSucceeded,
	wellknown.AnnotationTTLFailed: wellknown.AnnotationDefaultTTLFailed,
}

// misplaced are the findings about annotations of a Namespace on another kind.
func misplaced(s *Subject) []Finding {
	var out []Finding
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
		message := fmt.Sprintf("has no effect on a %s, only on a Namespace: %s", s.Profile.Kind.Kind, fix)
		if text, ok := s.Annotations[key]; ok {
			out = append(out, s.warn(policy.AnnotationPath(key), text, message))
		}
		if text, ok := s.Labels[key]; ok {
			out = append(out, s.warn(policy.LabelPath(key), text, message))
		}
	}
	return out
}
