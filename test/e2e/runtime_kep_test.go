package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

// kepRuntime and kepTrainJobs have the names and values of the user examples of KEP-2899
// (kubeflow/trainer), which gives runtimes a TTL and a default deadline.
const kepRuntime = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: torch-distributed-gpu
spec:
  ttlSecondsAfterFinished: 86400
  activeDeadlineSeconds: 28800
  mlPolicy:
    torch:
      numProcPerNode: auto
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            spec:
              template:
                spec:
                  containers:
                    - name: trainer
                      image: ghcr.io/kubeflow/trainer/torch-trainer
`

const kepTrainJobs = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: quick-experiment
spec:
  runtimeRef:
    name: torch-distributed-gpu
  trainer:
    image: my-training:latest
    numNodes: 2
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: long-finetune
spec:
  activeDeadlineSeconds: 259200
  runtimeRef:
    name: torch-distributed-gpu
  trainer:
    image: my-training:latest
    numNodes: 8
`

// Runtimes with the fields of KEP-2899: the deadline is a default that a TrainJob overrides, the
// TTL is the platform's, and existing TrainJobs are not migrated to a new one. The definitions are
// for the whole cluster, so that this test runs before the parallel ones.
func TestRuntimesWithTheFieldsOfTheKEP(t *testing.T) {
	s := newSpace(t)
	const fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
	define := func(op string) {
		t.Helper()
		var operations []string
		for path, schema := range map[string]string{
			"ttlSecondsAfterFinished": `{"type":"integer","format":"int32"}`,
			"activeDeadlineSeconds":   `{"type":"integer","format":"int64","minimum":1}`,
			// Which Trainer had then, and has no more.
			"mlPolicy/properties/torch/properties/numProcPerNode": `{"x-kubernetes-int-or-string":true}`,
		} {
			operations = append(operations, fmt.Sprintf(`{"op":%q,"path":%q,"value":%s}`, op, fields+path, schema))
		}
		patch := "[" + strings.Join(operations, ",") + "]"
		for _, kind := range []string{"clustertrainingruntimes", "trainingruntimes"} {
			s.expectSuccess(s.afterwards("patch", "crd", kind+".trainer.kubeflow.org", "--type=json", "-p", patch))
		}
	}
	define("add")
	defer define("remove")
	defer s.afterwards("delete", "clustertrainingruntime", "torch-distributed-gpu", "--ignore-not-found")
	s.poll("runtimes to have the fields", func(context.Context) (bool, error) {
		out := s.kubectlInput(kepRuntime, "create", "--dry-run=server", "-o", "json", "-f", "-")
		return strings.Contains(out.stdout, `"ttlSecondsAfterFinished": 86400`) && strings.Contains(out.stdout, wellknown.AnnotationDefaultSince), nil
	})
	s.expectStderr(s.kubectlInput(kepRuntime, "create", "-f", "-"))
	s.poll("the default deadline of the runtime", func(context.Context) (bool, error) {
		out := s.kubectlInput(kepTrainJobs, "create", "--dry-run=server", "-f", "-")
		return strings.Contains(out.stderr, `activeDeadlineSeconds defaulted to 28800 (8h) from runtime "torch-distributed-gpu"`), nil
	})
	s.expectStderr(s.kubectlInput(kepTrainJobs, "create", "-f", "-"), strings.TrimSuffix(warned(`activeDeadlineSeconds defaulted to 28800 (8h) from runtime "torch-distributed-gpu"`), "\n"))
	for name, want := range map[string][3]string{
		"quick-experiment": {"28800", "runtime/torch-distributed-gpu", "runtime/torch-distributed-gpu"},
		"long-finetune":    {"259200", "", "runtime/torch-distributed-gpu"},
	} {
		annotations := s.metaOf("trainjob", name).Annotations
		if got := [3]string{s.jsonpath("trainjob", name, ".spec.activeDeadlineSeconds"), annotations[wellknown.AnnotationDeadlineSource], annotations[wellknown.AnnotationTTLSource]}; got != want {
			t.Errorf("deadline, its source and the TTL's source of %s are %q, want %q", name, got, want)
		}
	}
	early := now()
	s.finished("trainjob", "quick-experiment", "Complete", early)
	s.expectSuccess(s.kubectl("patch", "clustertrainingruntime", "torch-distributed-gpu", "--type=merge", "-p", `{"spec":{"ttlSecondsAfterFinished":1}}`))
	late := s.ahead(2 * second)
	s.finished("trainjob", "long-finetune", "Failed", late)
	s.goneBy("trainjob", "long-finetune", late.Add(second))
	s.there("trainjob", "quick-experiment")
	s.expectStderr(s.kubectl("annotate", "clustertrainingruntime", "torch-distributed-gpu", wellknown.AnnotationBackfill+"=true"),
		"Warning: curfew: metadata.annotations[curfew.dev/backfill]: lets the TTL delete 1 TrainJob that finished before the runtime had it, at most 1000 a minute")
	s.goneBy("trainjob", "quick-experiment", early.Add(second))
}
