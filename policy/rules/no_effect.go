package rules

import (
	"curfew.dev/curfew/policy"
)

// noEffect warns of an annotation that Curfew ignores on this kind.
var noEffect = Rule{
	Name:   "no-effect",
	Fields: annotations(policy.LifetimeAnnotations...),
	Check: func(s *Subject) []policy.Finding {
		if s.Inherited {
			return nil
		}
		var out []policy.Finding
		kind := s.Profile.Kind.Kind
		why := ", which never finishes: remove it"
		if s.Profile.Unknown {
			why = ": no KindProfile says when it finishes; use label " + policy.LabelTTL
		}
		for _, key := range policy.TTLAnnotations {
			if text, ok := s.Annotations[key]; ok && !s.Profile.Finishable() && s.Profile.RuntimeOf == "" {
				out = append(out, s.warn(policy.AnnotationPath(key), text, "has no effect on a "+kind+why))
			}
		}
		if text, ok := s.Annotations[policy.AnnotationActiveDeadline]; ok && !s.Profile.AnnotatedDeadline && s.Profile.RuntimeOf == "" {
			fix := "remove it"
			if s.Profile.Deadline != nil {
				fix = "set " + s.path(s.Profile.Deadline.String())
			}
			out = append(out, s.warn(policy.AnnotationPath(policy.AnnotationActiveDeadline), text,
				"has no effect on a "+kind+": "+fix))
		}
		return out
	},
}
