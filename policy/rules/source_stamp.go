package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
)

// sourceStamp denies changes of the stamps that only Curfew writes: a value marked as a default
// escapes the bounds when the controller judges it. Removing a stamp, or changing it to "object",
// gives no rights and is allowed; kubectl replace does the first, Curfew the second. On CREATE a
// forged stamp is a warning: the value counts as its author's. The finalizer of tallies is Curfew's
// alone, too: it holds a Pod that no tally counts until the controller finds it, up to an hour later.
var sourceStamp = Rule{
	Name:   "source-stamp",
	Fields: append(annotations(wellknown.AnnotationTTLSource, wellknown.AnnotationDeadlineSource), "finalizers"),
	Review: func(r *Request) {
		if r.Operation == Create {
			for _, key := range r.forged {
				text, _ := annotationsPath.Child(key).Get(r.Object)
				r.warn(policy.AnnotationPath(key), fmt.Sprint(text), "was not written by Curfew, so the value counts as yours: remove it")
			}
			return
		}
		if r.OldFacts == nil {
			return
		}
		if r.Facts.IsPod() && tally.Held(r.Facts) && !tally.Held(r.OldFacts) && !r.byController() {
			r.deny("metadata.finalizers", wellknown.FinalizerTally, wellknown.FinalizerTally+" may only be added by Curfew: leave it out")
		}
		_, forged := resolution.Attested(r.Facts, r.Scope, r.Filled)
		for _, key := range []string{wellknown.AnnotationTTLSource, wellknown.AnnotationDeadlineSource} {
			now, ok := r.Facts.Annotations[key]
			before, had := r.OldFacts.Annotations[key]
			// Curfew fills in again what an update removes, and stamps that.
			genuine := had && now == string(lifetime.LevelObject) || now != string(lifetime.LevelObject) && !slices.Contains(forged, key)
			if ok && (!had || now != before) && !genuine {
				r.deny(policy.AnnotationPath(key), now, "may only be written by Curfew: leave it unchanged, or remove it")
			}
		}
	},
}

var annotationsPath = fieldpath.FieldPath{"metadata", "annotations"}
