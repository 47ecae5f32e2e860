package policy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reruns are kinds whose controllers create a deleted child again and so repeat finished work, with
// the kind of that child. Trainer v2.1 does it within seconds, v2.3 after each deletion of a failed
// JobSet (kubeflow/trainer#3779).
var reruns = map[schema.GroupKind]schema.GroupKind{
	{Group: "trainer.kubeflow.org", Kind: "TrainJob"}: {Group: "jobset.x-k8s.io", Kind: "JobSet"},
}

// rerunBy names the owner whose controller would run the object again if it were deleted, such as
// TrainJob a; "" where there is none. It does not matter whether the owner still exists: the
// garbage collector deletes the object with its owner, and an orphan has no owner reference.
func (f *Facts) rerunBy() string {
	if f.Owner == nil {
		return ""
	}
	child, ok := reruns[schema.GroupKind{Group: groupOf(f.Owner.APIVersion), Kind: f.Owner.Kind}]
	if !ok || child != f.Profile.Kind.GroupKind() {
		return ""
	}
	return f.Owner.Kind + " " + f.Owner.Name
}

// keepFor is the verdict on an object that its owner would run again: the value at path does not
// apply, and that is reported.
func (f *Facts) keepFor(owner, path string, source Source) Verdict {
	err := fmt.Errorf("%s would run this %s again: remove it, and limit the %s instead", owner, f.Profile.Kind.Kind, f.Owner.Kind)
	if path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return Verdict{Action: Keep, Reason: "it belongs to " + owner, Source: source, Err: err}
}
