package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// trained is an object of the real JobSet and Trainer CRDs. Neither project's controller runs here:
// what becomes of such an object is Curfew's doing, and its status is the test's.
type trained map[string]any

const replicatedJobs = `replicatedJobs: [{name: node, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: node, image: "busybox:1.37"}]}}}}}]`

func (s *space) trained(text string, changes ...func(trained)) trained {
	s.Helper()
	var out trained
	s.ok(yaml.Unmarshal([]byte(text), &out))
	for _, change := range changes {
		change(out)
	}
	return out
}

func (s *space) jobSet(name string, changes ...func(trained)) trained {
	s.Helper()
	return s.trained(`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: `+name+`}, spec: {`+replicatedJobs+`}}`, changes...)
}

// trainJob uses a ClusterTrainingRuntime, or a TrainingRuntime where it is so changed.
func (s *space) trainJob(name, runtime string, changes ...func(trained)) trained {
	s.Helper()
	return s.trained(`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: `+name+`}, spec: {runtimeRef: {name: `+runtime+`}}}`, changes...)
}

// runtime is a TrainingRuntime or a ClusterTrainingRuntime.
func (s *space) runtime(kind, name string, changes ...func(trained)) trained {
	s.Helper()
	return s.trained(`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: `+kind+`, metadata: {name: `+name+`}, spec: {template: {spec: {`+replicatedJobs+`}}}}`, changes...)
}

// at sets a field, found by names and, in lists, the first item.
func at(path string, value any) func(trained) {
	return func(o trained) {
		var here any = map[string]any(o)
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			name, list := strings.CutSuffix(name, "[0]")
			fields := here.(map[string]any)
			if fields[name] == nil {
				fields[name] = map[string]any{}
			}
			if here = fields[name]; list {
				here = here.([]any)[0]
			}
		}
		here.(map[string]any)[names[len(names)-1]] = value
	}
}

// noted annotates, and tagged labels: keys have dots.
func noted(key, value string) func(trained) { return keyed("annotations", key, value) }

func tagged(key, value string) func(trained) { return keyed("labels", key, value) }

func keyed(where, key, value string) func(trained) {
	return func(o trained) {
		metadata := o["metadata"].(map[string]any)
		if metadata[where] == nil {
			metadata[where] = map[string]any{}
		}
		metadata[where].(map[string]any)[key] = value
	}
}

// metaOf reads the metadata of an object.
func (s *space) metaOf(kind, name string) *metav1.ObjectMeta {
	s.Helper()
	var out struct{ Metadata metav1.ObjectMeta }
	s.ok(json.Unmarshal([]byte(s.expectSuccess(s.kubectl("get", kind, name, "-o", "json")).stdout), &out))
	return &out.Metadata
}

// finished writes the status of a JobSet or TrainJob: a condition, since an instant.
func (s *space) finished(kind, name, condition string, t time.Time) {
	s.Helper()
	s.expectSuccess(s.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"conditions":[{"type":%q,"status":"True","reason":"Test","message":"","lastTransitionTime":%q}]}}`, condition, t.UTC().Format(time.RFC3339))))
}

// goneBy waits for the deletion of what kubectl names, and fails the test if it came before its
// expiry.
func (s *space) goneBy(kind, name string, expiry time.Time) {
	s.Helper()
	s.expectSuccess(s.kubectl("wait", kind+"/"+name, "--for=delete", "--timeout=10m"))
	if early := time.Until(expiry); early > 0 {
		s.Fatalf("%s %s was gone %s before its expiry", kind, name, early)
	}
}

func (s *space) there(kind, name string) {
	s.Helper()
	if got := s.metaOf(kind, name); got.DeletionTimestamp != nil {
		s.Fatalf("%s %s is being deleted", kind, name)
	}
}
