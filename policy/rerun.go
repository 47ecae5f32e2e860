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

// replacers are kinds whose controllers replace a deleted child, with the kind of that child. Other
// owners, such as a CronJob, do not replace finished ones; Pods of a Job have rules of their own.
var replacers = map[schema.GroupKind]schema.GroupKind{
	{Group: "apps", Kind: "ReplicaSet"}:        {Kind: "Pod"},
	{Group: "apps", Kind: "StatefulSet"}:       {Kind: "Pod"},
	{Group: "apps", Kind: "DaemonSet"}:         {Kind: "Pod"},
	{Kind: "ReplicationController"}:            {Kind: "Pod"},
	{Group: "apps", Kind: "Deployment"}:        {Group: "apps", Kind: "ReplicaSet"},
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}: {Group: "batch", Kind: "Job"},
}

// ReplacedBy names the owner whose controller would create another object in place of this one,
// such as ReplicaSet web; "" where there is none. until is when it ends, as a clause.
func (f *Facts) ReplacedBy() (owner, until string) {
	if owner = f.ownerIn(replacers); owner != "" && f.Owner.Kind == "JobSet" {
		until = " until it has finished"
	}
	return owner, until
}

// RerunBy names the owner whose controller would run the object again if it were deleted, such as
// TrainJob a; "" where there is none. It does not matter whether the owner still exists: the
// garbage collector deletes the object with its owner, and an orphan has no owner reference.
func (f *Facts) RerunBy() string { return f.ownerIn(reruns) }

// ownerIn names the controller owner if these are its kind and the object's.
func (f *Facts) ownerIn(children map[schema.GroupKind]schema.GroupKind) string {
	if f.Owner == nil {
		return ""
	}
	child, ok := children[schema.GroupKind{Group: groupOf(f.Owner.APIVersion), Kind: f.Owner.Kind}]
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
