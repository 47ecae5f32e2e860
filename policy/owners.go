package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// LimitKeys are the annotations of a trigger that limit an object's lifetime. The label has a key
// of its own.
func LimitKeys(trigger Trigger) []string {
	switch trigger {
	case TriggerTTL:
		return wellknown.TTLAnnotations
	case TriggerDeadline, TriggerDeadlineCheck:
		return []string{wellknown.AnnotationActiveDeadline}
	default:
		return nil
	}
}

// TemplateOwners are the objects from whose template a value under one of the keys may come: the
// controller owner, and a ReplicationController itself, to which the API server copies the labels
// of its template if it has none. A claim of a StatefulSet names it in its own name at most. Only
// these must be read. A CronJob's jobTemplate is not a pod template: what its metadata says about
// the Job is explicit.
func (f *Facts) TemplateOwners(keys ...string) (owners []*metav1.OwnerReference) {
	if !slices.ContainsFunc(keys, func(key string) bool { _, _, ok := f.carried(key); return ok }) {
		return nil
	}
	if f.Profile.Kind.GroupKind() == ReplicationControllerProfile.Kind.GroupKind() {
		owners = append(owners, metav1.NewControllerRef(&metav1.ObjectMeta{Name: f.Name, UID: f.UID}, ReplicationControllerProfile.Kind))
	}
	if f.Owner != nil && !f.IsCronJobsJob() {
		owners = append(owners, f.Owner)
	}
	return append(owners, f.claimOwners()...)
}

var claimKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}

// claimOwners are the StatefulSets, of whatever UID, whose claim it may be: its name is that of the
// claim template, of the StatefulSet and an ordinal, and each of the first two may contain dashes.
// The name of its Pod, which ends alike, is the value of a label of the Pod and at most as long.
func (f *Facts) claimOwners() (owners []*metav1.OwnerReference) {
	last := strings.LastIndexByte(f.Name, '-')
	if f.Profile.Kind.GroupKind() != claimKind || last < 0 {
		return nil
	}
	if _, err := strconv.ParseUint(f.Name[last+1:], 10, 31); err != nil {
		return nil
	}
	for i := 1; i < last-1; i++ {
		if f.Name[i] == '-' && len(f.Name)-i-1 <= validation.LabelValueMaxLength {
			owner := &metav1.OwnerReference{Name: f.Name[i+1 : last]}
			owner.APIVersion, owner.Kind = StatefulSetProfile.Kind.ToAPIVersionAndKind()
			owners = append(owners, owner)
		}
	}
	return owners
}

// carried is the value of the object under a key, with its field path.
func (f *Facts) carried(key string) (value, path string, ok bool) {
	if value, ok = f.Labels[key]; ok && (key == wellknown.LabelTTL || key == wellknown.LabelKyvernoTTL) {
		return value, LabelPath(key), true
	}
	value, ok = f.Annotations[key]
	return value, AnnotationPath(key), ok
}

// Inherited is the verdict on an object whose value under one of the keys comes from the template
// of one of its TemplateOwners: keep, and report. The owner's controller would create each deleted
// child again. ok is false where the value is the child's own, which counts (KEP-592), and for an
// orphan, whose owner was read as nil.
func (f *Facts) Inherited(owner *metav1.OwnerReference, read map[string]any, keys ...string) (verdict Verdict, ok bool) {
	if read == nil {
		return Verdict{}, false
	}
	for _, key := range keys {
		if value, path, there := f.carried(key); there && templateHas(read, key, value) {
			return f.keepInherited(fmt.Errorf("%s: %q comes from the template of %s %s, %s",
				path, value, owner.Kind, owner.Name, f.consequence(owner))), true
		}
	}
	return Verdict{}, false
}

func (f *Facts) consequence(owner *metav1.OwnerReference) string {
	switch owner.UID {
	case f.UID:
		return "whose labels apply to its Pods, and to itself if it has none: remove it there"
	case "":
		return "whose Pods need the volume: remove it from the claim"
	}
	return "which creates another object instead: remove it there"
}

// OwnerUnreadable is the verdict on an object that may inherit from an owner that Curfew cannot
// read.
func (f *Facts) OwnerUnreadable(owner *metav1.OwnerReference, err error) Verdict {
	return f.keepInherited(fmt.Errorf("%s %s cannot be read, and its template may contain the value: %w", owner.Kind, owner.Name, err))
}

func (f *Facts) keepInherited(err error) Verdict {
	return Verdict{Action: Keep, Reason: "it may belong to a template", Source: lifetime.Source{Level: lifetime.LevelObject}, Err: err}
}

// templateHas reports whether an owner has a key with a value anywhere but in its own metadata.
// Templates are in different places by kind (spec.template.metadata, spec.driver.labels,
// status.storedTemplates, …).
func templateHas(owner map[string]any, key, value string) bool {
	for name, field := range owner {
		if name != "metadata" && contains(field, key, value) {
			return true
		}
	}
	return false
}

func contains(field any, key string, value any) bool {
	switch field := field.(type) {
	case map[string]any:
		if found, ok := field[key]; ok && reflect.DeepEqual(found, value) {
			return true
		}
		for _, inner := range field {
			if contains(inner, key, value) {
				return true
			}
		}
	case []any:
		for _, inner := range field {
			if contains(inner, key, value) {
				return true
			}
		}
	}
	return false
}

// CarriedBy reports whether an owner has the value of a field of its child anywhere, under the same
// last key. The field is one of a [rules.Finding]. Templates are in different places by kind, and
// the Deployment controller copies annotations of the Deployment itself.
func CarriedBy(owner, child map[string]any, field string) bool {
	key, value := fieldOf(child, field)
	return contains(owner, key, value)
}

// fieldOf is the last key of a path such as spec.jobs[0].metadata.labels[curfew.dev/ttl], and its
// value; nil if there is none.
func fieldOf(object any, path string) (key string, value any) {
	value = object
	for _, key = range fieldpath.Names(path) {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return key, nil
			}
			value = v[i]
		default:
			return key, nil
		}
	}
	return key, value
}

// reruns are kinds whose controllers create a deleted child again and so repeat finished work, with
// the kind of that child. Trainer v2.1 does it within seconds, v2.3 after each deletion of a failed
// JobSet (kubeflow/trainer#3779).
var reruns = map[schema.GroupKind][]schema.GroupKind{
	{Group: "trainer.kubeflow.org", Kind: "TrainJob"}: {{Group: "jobset.x-k8s.io", Kind: "JobSet"}},
}

// replacers are kinds whose controllers replace a deleted child, with the kind of that child. Other
// owners, such as a CronJob, do not replace finished ones; Pods of a Job have rules of their own.
var replacers = map[schema.GroupKind][]schema.GroupKind{
	{Group: "apps", Kind: "ReplicaSet"}:        {{Kind: "Pod"}},
	{Group: "apps", Kind: "StatefulSet"}:       {{Kind: "Pod"}},
	{Group: "apps", Kind: "DaemonSet"}:         {{Kind: "Pod"}},
	{Kind: "ReplicationController"}:            {{Kind: "Pod"}},
	{Group: "apps", Kind: "Deployment"}:        {{Group: "apps", Kind: "ReplicaSet"}},
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}: {{Group: "batch", Kind: "Job"}},
}

// copiers are kinds whose controllers copy their own annotations and labels, Curfew's included,
// onto a child (Tekton: createChildResourceAnnotations in pkg/reconciler/pipelinerun, and pkg/pod).
// While a pipeline runs, Tekton runs a task again whose run is gone. Kubernetes copies the labels of
// a Service to its EndpointSlices, and creates these again.
var copiers = map[schema.GroupKind][]schema.GroupKind{
	{Group: "tekton.dev", Kind: "PipelineRun"}: {
		{Group: "tekton.dev", Kind: "TaskRun"}, {Group: "tekton.dev", Kind: "PipelineRun"},
		{Group: "tekton.dev", Kind: "CustomRun"}, {Group: "tekton.dev", Kind: "Run"},
	},
	{Group: "tekton.dev", Kind: "TaskRun"}: {{Kind: "Pod"}},
	{Kind: "Service"}:                      {{Group: "discovery.k8s.io", Kind: "EndpointSlice"}},
}

// CopiedFrom names the owner whose TTL or label the object has as a copy, such as PipelineRun a; ""
// where there is none. The copy does not apply, whatever its value: the owner's may have been
// extended since. The garbage collector deletes the object with its owner.
func (f *Facts) CopiedFrom() string { return f.ownerIn(copiers) }

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
func (f *Facts) ownerIn(children map[schema.GroupKind][]schema.GroupKind) string {
	if f.Owner == nil {
		return ""
	}
	owner := schema.GroupKind{Group: groupOf(f.Owner.APIVersion), Kind: f.Owner.Kind}
	if !slices.Contains(children[owner], f.Profile.Kind.GroupKind()) {
		return ""
	}
	return f.Owner.Kind + " " + f.Owner.Name
}

// KeepFor is the verdict on an object that its owner would run again: the value at path does not
// apply, and that is reported.
func (f *Facts) KeepFor(owner, path string, source lifetime.Source) Verdict {
	err := fmt.Errorf("%s would run this %s again: remove it, and limit the %s instead", owner, f.Profile.Kind.Kind, f.Owner.Kind)
	if path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return Verdict{Action: Keep, Reason: "it belongs to " + owner, Source: source, Err: err}
}
