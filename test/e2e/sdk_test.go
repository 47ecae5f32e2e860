package e2e

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/wellknown"
)

// sdkTrainJob is the request that the Kubeflow SDK sends for TrainerClient().train(runtime=…,
// trainer=CustomTrainerContainer(image=…, num_nodes=2), options=[Annotations({…})]), with a runtime
// of the test's. It was recorded from the SDK's code: version 0.4.1 as in
// opendatahub-io/kubeflow-sdk v0.4.1+rhaiv.0, kubeflow/trainer/options/kubernetes.py and train() in
// kubeflow/trainer/backends/kubernetes/backend.py, with the models of Trainer v2.3.0
// (api/python_api) and a Kubernetes client that kept what create_namespaced_custom_object got.
func (s *space) sdkTrainJob(runtime string) *unstructured.Unstructured {
	s.Helper()
	data, err := os.ReadFile("testdata/sdk-trainjob.json")
	s.ok(err)
	out := &unstructured.Unstructured{}
	s.ok(out.UnmarshalJSON(data))
	s.ok(unstructured.SetNestedField(out.Object, runtime, "spec", "runtimeRef", "name"))
	return out
}

// What a data scientist says in Python is the deadline that the TrainJob has, whatever the default
// of its namespace: as an annotation, and from SDK 0.5.0 on (kubeflow/sdk#415) as
// ActiveDeadlineSeconds(seconds=20), which sets the field.
func TestTrainJobAsTheSDKSendsIt(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultDeadline, "2h")
	runtime := s.name + "-torch"
	s.Cleanup(func() { s.afterwards("delete", "clustertrainingruntime", runtime, "--ignore-not-found") })
	s.creates(row{s.runtime("ClusterTrainingRuntime", runtime), ""})
	s.eventually(row{s.trainJob("probe", runtime), warned(`activeDeadlineSeconds defaulted to 7200 (2h) from namespace "` + s.name + `"`)})

	annotated := s.sdkTrainJob(runtime)
	field := annotated.DeepCopy()
	field.SetName("u98033f029f2")
	field.SetAnnotations(nil)
	s.ok(unstructured.SetNestedField(field.Object, int64(20), "spec", "activeDeadlineSeconds"))
	for _, sent := range []*unstructured.Unstructured{annotated, field} {
		body, err := sent.MarshalJSON()
		s.ok(err)
		s.expectStderr(s.kubectlInput(string(body), "create", "--raw", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/"+s.name+"/trainjobs", "-f", "-"))
		if got := s.jsonpath("trainjob", sent.GetName(), ".spec.activeDeadlineSeconds"); got != "20" {
			t.Errorf("the deadline of %s became %q, want 20", sent.GetName(), got)
		}
		got := s.metaOf("trainjob", sent.GetName()).Annotations
		for key, want := range sent.GetAnnotations() {
			if got[key] != want {
				t.Errorf("annotation %s of %s became %q, want %q", key, sent.GetName(), got[key], want)
			}
		}
		delete(got, wellknown.AnnotationDeadlineSource)
		if len(got) != len(sent.GetAnnotations()) {
			t.Errorf("the annotations of %s became %v", sent.GetName(), got)
		}
	}
}
