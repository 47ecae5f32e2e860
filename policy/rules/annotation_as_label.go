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
	Check: func(s *Subject) {
		keys := objectAnnotations
		if s.IsNamespace() {
			keys = namespaceAnnotations
		}
		for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
			if key == wellknown.AnnotationPodTTL && s.Profile.Unknown {
				continue // Such kinds run no Jobs that Curfew knows of, and are not sent for this label.
			}
			if slices.Contains(keys, key) {
				s.warn(policy.LabelPath(key), s.Labels[key], "is an annotation, and has no effect as a label: "+s.annotationInstead(key))
			}
		}
	},
}

// objectAnnotations and namespaceAnnotations are the annotations that people write.
var (
	objectAnnotations    = append(slices.Clone(wellknown.LifetimeAnnotations), wellknown.AnnotationPodTTL, wellknown.AnnotationProtect)
	namespaceAnnotations = append(slices.Clone(wellknown.NamespaceAnnotations), objectAnnotations...)
	namespaceLabels      = fieldsOf(LabelField, namespaceAnnotations...)
)
