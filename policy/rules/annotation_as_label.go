package rules

import (
	"maps"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// annotationAsLabel warns of an annotation of Curfew's among the labels, where nothing reads it.
var annotationAsLabel = Rule{
	Name:   "annotation-as-label",
	Fields: namespaceLabels,
	Check: func(s *Subject) []Finding {
		keys := objectAnnotations
		if isNamespace(s.Facts) {
			keys = namespaceAnnotations
		}
		var out []Finding
		for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
			if key == wellknown.AnnotationPodTTL && s.Profile.Unknown {
				continue // Such kinds run no Jobs that Curfew knows of, and are not sent for this label.
			}
			if slices.Contains(keys, key) {
				out = append(out, s.warn(policy.LabelPath(key), s.Labels[key], "is an annotation, and has no effect as a label: "+s.annotationInstead(key)))
			}
		}
		return out
	},
}

// objectAnnotations and namespaceAnnotations are the annotations that people write.
var (
	objectAnnotations    = append(slices.Clone(wellknown.TTLAnnotations), wellknown.AnnotationPodTTL, wellknown.AnnotationActiveDeadline, wellknown.AnnotationProtect)
	namespaceAnnotations = append(slices.Clone(wellknown.NamespaceAnnotations), objectAnnotations...)
	namespaceLabels      = fieldsOf(LabelField, namespaceAnnotations...)
)

// annotationInstead is the fix. It never names an annotation that would have no effect either.
func (s *Subject) annotationInstead(key string) string {
	if slices.Contains(wellknown.TTLAnnotations, key) && !s.Profile.Finishable() && s.Profile.RuntimeOf == "" {
		return "a " + s.Profile.Kind.Kind + " has no TTL after finished; use label " + wellknown.LabelTTL
	}
	if key == wellknown.AnnotationPodTTL && s.Profile.Kind.GroupKind() != policy.JobProfile.Kind.GroupKind() {
		return s.podTTLInstead()
	}
	return "set " + s.path(policy.AnnotationPath(key))
}
