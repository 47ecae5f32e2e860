package policy_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// The JobSet of a TrainJob is deleted by no TTL and no label, since Trainer would run it again; it
// is kept, and that is reported. The JobSets of others, and what else a TrainJob owns, are deleted.
func TestJobSetOfATrainJobIsKept(t *testing.T) {
	jobSet := &policy.Profile{
		Name: "jobsets", Kind: schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
		TTL: fieldpath.FieldPath{"spec", "ttlSecondsAfterFinished"}, State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil },
	}
	secret := &policy.Profile{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}}
	owner := func(apiVersion, kind string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "train", UID: "t"}
	}
	trainJob := owner("trainer.kubeflow.org/v1alpha1", "TrainJob")
	const label = "metadata.labels[curfew.dev/ttl]: TrainJob train would run this JobSet again: remove it, and limit the TrainJob instead"
	for name, c := range map[string]struct {
		profile    *policy.Profile
		owner      *metav1.OwnerReference
		native     bool
		annotation string
		label      string
		ttl, lab   policy.Action
		err        string
	}{
		"annotation":        {profile: jobSet, owner: trainJob, annotation: "60", err: "metadata.annotations[curfew.dev/ttl-after-finished]: TrainJob train would run this JobSet again: remove it, and limit the TrainJob instead"},
		"native field":      {profile: jobSet, owner: trainJob, native: true, err: "spec.ttlSecondsAfterFinished: TrainJob train would run this JobSet again: remove it, and limit the TrainJob instead"},
		"label":             {profile: jobSet, owner: trainJob, label: "1m", err: label},
		"a later version":   {profile: jobSet, owner: owner("trainer.kubeflow.org/v2", "TrainJob"), label: "2020-01-01", err: label},
		"never, unlabelled": {profile: jobSet, owner: trainJob, annotation: "never"},
		"no TTL":            {profile: jobSet, owner: trainJob},
		"without an owner":  {profile: jobSet, annotation: "60", label: "1m", ttl: policy.Delete, lab: policy.Delete},
		"of another kind":   {profile: jobSet, owner: owner("example.com/v1", "TrainJob"), annotation: "60", label: "1m", ttl: policy.Delete, lab: policy.Delete},
		"its Secret":        {profile: secret, owner: trainJob, label: "1m", lab: policy.Delete},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &policy.Facts{
				Profile: c.profile, Namespace: "ci", Name: "a", Created: noon.Add(-time.Hour), Owner: c.owner,
				Labels: map[string]string{}, Annotations: map[string]string{},
				State: policy.State{Finished: c.profile == jobSet, Outcome: lifetime.Succeeded, FinishTime: noon.Add(-time.Hour)},
			}
			if c.native {
				facts.NativeTTL = lifetime.NativeField{Set: true, Seconds: 60}
			}
			if c.annotation != "" {
				facts.Annotations[wellknown.AnnotationTTL] = c.annotation
			}
			if c.label != "" {
				facts.Labels[wellknown.LabelTTL] = c.label
			}
			effective := resolution.Resolve(facts, &resolution.Scope{})
			byTTL, byLabel := judging.Judge(facts, &effective, noon), judging.JudgeLabel(facts, wellknown.LabelTTL, &resolution.Scope{}, noon)
			if byTTL.Action != c.ttl || byLabel.Action != c.lab {
				t.Errorf("%s and %s; want %s and %s", byTTL.Action, byLabel.Action, c.ttl, c.lab)
			}
			output := ""
			for _, verdict := range []policy.Verdict{byTTL, byLabel} {
				if verdict.Err != nil {
					output += verdict.Err.Error()
				}
			}
			if output != c.err {
				t.Errorf("reported: %q\nwant      %q", output, c.err)
			}
		})
	}
}

// Tekton copies the annotations and labels of a PipelineRun to its children, and a TaskRun's to
// Pods. The copy deletes nothing, whatever its value: while the pipeline runs, Tekton would run the
// task again.
func TestCopiedFromAPipelineRun(t *testing.T) {
	tekton := func(version, kind string) *policy.Profile {
		return &policy.Profile{
			Name: kind, Kind: schema.GroupVersionKind{Group: "tekton.dev", Version: version, Kind: kind},
			State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil },
		}
	}
	taskRun, slice := tekton("v1", "TaskRun"), tekton("v1", "EndpointSlice")
	slice.Kind.Group = "discovery.k8s.io"
	owner := func(apiVersion, kind string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "build", UID: "t"}
	}
	tally := &resolution.PodCounter{Source: lifetime.Source{Level: lifetime.LevelTally, Name: "builds"}}
	tally.TTL = &lifetime.Setting{Path: "spec.ttlAfterCounted", Source: tally.Source, Text: "1m", TTL: lifetime.TTL{After: time.Minute}}
	for name, c := range map[string]struct {
		profile  *policy.Profile
		owner    *metav1.OwnerReference
		value    string
		counter  *resolution.PodCounter
		ttl, lab policy.Action
		reason   string
	}{
		"TaskRun of a PipelineRun":       {profile: taskRun, owner: owner("tekton.dev/v1", "PipelineRun"), value: "1m", reason: "its TTL is a copy of that of PipelineRun build"},
		"PipelineRun of a PipelineRun":   {profile: tekton("v1", "PipelineRun"), owner: owner("tekton.dev/v1", "PipelineRun"), value: "1m", reason: "its TTL is a copy of that of PipelineRun build"},
		"Run of a PipelineRun":           {profile: tekton("v1alpha1", "Run"), owner: owner("tekton.dev/v1beta1", "PipelineRun"), value: "1m", reason: "its TTL is a copy of that of PipelineRun build"},
		"CustomRun of a PipelineRun":     {profile: tekton("v1beta1", "CustomRun"), owner: owner("tekton.dev/v1", "PipelineRun"), value: "1m", reason: "its TTL is a copy of that of PipelineRun build"},
		"CustomRun of a TaskRun":         {profile: tekton("v1beta1", "CustomRun"), owner: owner("tekton.dev/v1", "TaskRun"), value: "1m", ttl: policy.Delete, lab: policy.Delete},
		"a copy that cannot be read":     {profile: taskRun, owner: owner("tekton.dev/v1", "PipelineRun"), value: "soon", reason: "its TTL is a copy of that of PipelineRun build"},
		"Pod of a TaskRun":               {profile: policy.PodProfile, owner: owner("tekton.dev/v1", "TaskRun"), value: "1m", reason: "its TTL is a copy of that of TaskRun build"},
		"Pod of a TaskRun, tallied":      {profile: policy.PodProfile, owner: owner("tekton.dev/v1", "TaskRun"), counter: tally, ttl: policy.Delete},
		"TaskRun of its own":             {profile: taskRun, value: "1m", ttl: policy.Delete, lab: policy.Delete},
		"TaskRun of another's kind":      {profile: taskRun, owner: owner("example.com/v1", "PipelineRun"), value: "1m", ttl: policy.Delete, lab: policy.Delete},
		"EndpointSlice of a Service":     {profile: slice, owner: owner("v1", "Service"), value: "1m", reason: "its TTL is a copy of that of Service build"},
		"Pod of a PipelineRun, directly": {profile: policy.PodProfile, owner: owner("tekton.dev/v1", "PipelineRun"), value: "1m", ttl: policy.Delete, lab: policy.Delete},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &policy.Facts{
				Profile: c.profile, Namespace: "ci", Name: "a", UID: "a", Created: noon.Add(-time.Hour), Owner: c.owner, RestartPolicy: "Never",
				Labels: map[string]string{}, Annotations: map[string]string{},
				State: policy.State{Finished: true, Outcome: lifetime.Succeeded, FinishTime: noon.Add(-time.Hour)},
			}
			if c.counter != nil {
				facts.Annotations[wellknown.AnnotationCountedBy] = "tally"
			}
			if c.value != "" {
				facts.Annotations[wellknown.AnnotationTTL], facts.Labels[wellknown.LabelTTL] = c.value, c.value
			}
			scope := &resolution.Scope{Counter: c.counter}
			effective := resolution.Resolve(facts, scope)
			byTTL, byLabel := judging.Judge(facts, &effective, noon), judging.JudgeLabel(facts, wellknown.LabelTTL, scope, noon)
			if byTTL.Action != c.ttl || byLabel.Action != c.lab {
				t.Errorf("%s and %s; want %s and %s", byTTL.Action, byLabel.Action, c.ttl, c.lab)
			}
			if c.reason != "" && (byTTL.Reason != c.reason || byTTL.Err != nil || byLabel.Err != nil) {
				t.Errorf("%q, %v, %v; want %q and no report", byTTL.Reason, byTTL.Err, byLabel.Err, c.reason)
			}
		})
	}
}
