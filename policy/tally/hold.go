package tally

import (
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Hold gives a new Pod the finalizer of the tally that counts it, and reports whether one does. It
// takes a finalizer away that the author copied from another Pod: nothing would remove it (S7).
func Hold(tallies []*Tally, pod *policy.Facts) ([]resolution.Assignment, bool) {
	out, want := Uncounted(pod), Owner(tallies, pod) != nil
	if want == Held(pod) {
		return out, want
	}
	var kept any // nil removes the field
	finalizers := []any{}
	for _, finalizer := range pod.Finalizers {
		if finalizer != wellknown.FinalizerTally {
			finalizers = append(finalizers, finalizer)
		}
	}
	if want {
		finalizers = append(finalizers, wellknown.FinalizerTally)
	}
	if len(finalizers) > 0 {
		kept = finalizers
	}
	return append(out, resolution.Assignment{Path: fieldpath.FieldPath{"metadata", "finalizers"}, Value: kept}), want
}

// Uncounted takes an annotation counted-by away that the author copied from another Pod: with it the
// Pod would never be counted (S7).
func Uncounted(pod *policy.Facts) []resolution.Assignment {
	if _, copied := pod.Annotations[wellknown.AnnotationCountedBy]; !copied {
		return nil
	}
	return []resolution.Assignment{{Path: fieldpath.FieldPath{"metadata", "annotations", wellknown.AnnotationCountedBy}}}
}
