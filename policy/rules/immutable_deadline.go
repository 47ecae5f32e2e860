package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// immutableDeadline denies any change of a deadline after creation where the profile says so.
// Trainer's own rule (self == oldSelf) does not cover a deadline that is added later, which would
// stop a running TrainJob.
var immutableDeadline = Rule{
	Name:   "immutable-deadline",
	Fields: append(deadlineField, NativeDeadline),
	Transition: func(r *Request) {
		if !r.Facts.Profile.ImmutableDeadline {
			return
		}
		if path := r.Facts.Profile.Deadline; path != nil {
			before, had := path.Get(r.Old)
			after, has := path.Get(r.Object)
			if r.Facts.Profile.DurationDeadline && r.Facts.NativeDeadline.Same(r.OldFacts.NativeDeadline) {
				after = before // 60m is 1h.
			}
			r.deadlineChange(path.String(), fmt.Sprint(before), had, fmt.Sprint(after), has)
		}
		before, had := r.OldFacts.Annotations[wellknown.AnnotationActiveDeadline]
		after, has := r.Facts.Annotations[wellknown.AnnotationActiveDeadline]
		r.deadlineChange(policy.AnnotationPath(wellknown.AnnotationActiveDeadline), before, had, after, has)
	},
}

func (r *Request) deadlineChange(field, before string, had bool, after string, has bool) {
	what, kind := "", r.Facts.Profile.Kind.Kind
	switch {
	case had && has && before != after:
		what = fmt.Sprintf("changed after creation, from %s to %s: leave it, or create a new %s", before, after, kind)
	case has && !had:
		what = fmt.Sprintf("added after creation: leave it out, or create a new %s with it", kind)
	case had && !has:
		what = fmt.Sprintf("removed after creation: leave it at %s, or create a new %s without it", before, kind)
	default:
		return
	}
	r.deny(field, after, "cannot be "+what)
}
