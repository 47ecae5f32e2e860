package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// project is a kind of another project that Curfew has a profile for.
type project struct {
	resource schema.GroupVersionResource
	// noStatus: the kind has no status subresource.
	noStatus bool
	// spec is the least that its CRD accepts.
	spec string
	// native is the kind's own TTL, if it has one.
	native *way
	states []state
}

// way is how an object gets its TTL, and what that is for each outcome: without an entry it stays.
type way struct {
	name string
	set  func(trained)
	ttls map[lifetime.Outcome]time.Duration
	// except is a state that it does not apply to.
	except string
}

// native2s is a field that applies whatever the outcome.
func native2s(field string) *way {
	return &way{name: "native", set: at(field, 2), ttls: map[lifetime.Outcome]time.Duration{lifetime.Succeeded: 2 * second, lifetime.Failed: 2 * second}}
}

// state is a status as the project's controller writes it; START and END stand for times.
type state struct {
	name, status string
	// outcome is empty for what has not finished, whatever its TTL.
	outcome lifetime.Outcome
	labels  []string
}

// trainingJob is a TFJob or PyTorchJob, which share their status.
func trainingJob(resource, replicas string) project {
	return project{
		resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: resource},
		spec: `{` + replicas + `: {Worker: {replicas: 1, restartPolicy: Never,
			template: {spec: {containers: [{name: main, image: "busybox:1.37"}]}}}}}`,
		native: native2s("spec.runPolicy.ttlSecondsAfterFinished"),
		states: []state{
			{name: "succeeded", outcome: lifetime.Succeeded, status: `{startTime: START, completionTime: END, replicaStatuses: {Worker: {succeeded: 1}}, conditions: [
				{type: Running, status: "False", lastTransitionTime: END}, {type: Succeeded, status: "True", lastTransitionTime: END}]}`},
			// One that failed may have no completionTime.
			{name: "failed", outcome: lifetime.Failed, status: `{startTime: START, replicaStatuses: {Worker: {failed: 1}}, conditions: [
				{type: Running, status: "False", lastTransitionTime: START}, {type: Failed, status: "True", lastTransitionTime: END}]}`},
			{name: "running", status: `{startTime: START, replicaStatuses: {Worker: {active: 1}}, conditions: [
				{type: Created, status: "True", lastTransitionTime: START}, {type: Running, status: "True", lastTransitionTime: END}]}`},
			{name: "restarting", status: `{startTime: START, replicaStatuses: {Worker: {failed: 1}}, conditions: [
				{type: Failed, status: "False", lastTransitionTime: END}, {type: Restarting, status: "True", lastTransitionTime: END}]}`},
		},
	}
}

var projects = map[string]project{
	"TFJob":      trainingJob("tfjobs", "tfReplicaSpecs"),
	"PyTorchJob": trainingJob("pytorchjobs", "pytorchReplicaSpecs"),
	"Workflow": {
		resource: schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"},
		noStatus: true,
		spec:     `{entrypoint: main, templates: [{name: main, container: {image: "busybox:1.37"}}]}`,
		native: &way{name: "native", set: at("spec.ttlStrategy", map[string]any{"secondsAfterSuccess": 3600, "secondsAfterFailure": 2}),
			ttls: map[lifetime.Outcome]time.Duration{lifetime.Failed: 2 * second}, except: "error"}, // for phase Failed alone
		states: []state{
			{name: "succeeded", outcome: lifetime.Succeeded, status: `{phase: Succeeded, startedAt: START, finishedAt: END}`},
			{name: "failed", outcome: lifetime.Failed, status: `{phase: Failed, startedAt: START, finishedAt: END}`},
			{name: "error", outcome: lifetime.Failed, status: `{phase: Error, startedAt: START, finishedAt: END}`},
			{name: "running", status: `{phase: Running, startedAt: START, finishedAt: null}`},
			// Its own controller does not delete it either before it has archived it.
			{name: "unarchived", status: `{phase: Succeeded, startedAt: START, finishedAt: END}`,
				labels: []string{"workflows.argoproj.io/completed", "true", "workflows.argoproj.io/workflow-archiving-status", "Pending"}},
		},
	},
	"PipelineRun": {
		resource: schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"},
		spec:     `{pipelineRef: {name: build}}`,
		states: []state{
			{name: "succeeded", outcome: lifetime.Succeeded, status: `{startTime: START, completionTime: END, conditions: [
				{type: Succeeded, status: "True", reason: Completed, lastTransitionTime: END}]}`},
			{name: "failed", outcome: lifetime.Failed, status: `{startTime: START, completionTime: END, conditions: [
				{type: Succeeded, status: "False", reason: PipelineRunTimeout, lastTransitionTime: END}]}`},
			{name: "running", status: `{startTime: START, conditions: [{type: Succeeded, status: Unknown, reason: Running, lastTransitionTime: END}]}`},
			{name: "stopping", status: `{startTime: START, conditions: [{type: Succeeded, status: Unknown, reason: CancelledRunningFinally, lastTransitionTime: END}]}`},
		},
	},
	"RayJob": {
		resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayjobs"},
		spec: `{entrypoint: python train.py, shutdownAfterJobFinishes: true, rayClusterSpec: {headGroupSpec: {rayStartParams: {},
			template: {spec: {containers: [{name: head, image: "rayproject/ray:2.52.0"}]}}}}}`,
		// The field of this name deletes the RayCluster and not the RayJob: the namespace's default
		// applies.
		native: &way{name: "native", set: at("spec.ttlSecondsAfterFinished", 1), ttls: map[lifetime.Outcome]time.Duration{lifetime.Succeeded: 2 * second}},
		states: []state{
			{name: "succeeded", outcome: lifetime.Succeeded, status: `{jobStatus: SUCCEEDED, jobDeploymentStatus: Complete, startTime: START, endTime: END}`},
			{name: "failed", outcome: lifetime.Failed, status: `{jobStatus: FAILED, jobDeploymentStatus: Failed, reason: AppFailed, startTime: START, endTime: END}`},
			{name: "stopped", outcome: lifetime.Failed, status: `{jobStatus: STOPPED, jobDeploymentStatus: Complete, startTime: START, endTime: END}`},
			{name: "running", status: `{jobStatus: RUNNING, jobDeploymentStatus: Running, startTime: START}`},
			{name: "retrying", status: `{jobStatus: FAILED, jobDeploymentStatus: Retrying, startTime: START, endTime: END}`},
			{name: "invalid", status: `{jobStatus: "", jobDeploymentStatus: ValidationFailed, reason: ValidationFailed}`},
		},
	},
	"SparkApplication": {
		resource: schema.GroupVersionResource{Group: "sparkoperator.k8s.io", Version: "v1beta2", Resource: "sparkapplications"},
		spec:     `{type: Python, sparkVersion: 4.0.1, mainApplicationFile: "local:///train.py", driver: {}, executor: {}}`,
		native:   native2s("spec.timeToLiveSeconds"),
		states: []state{
			{name: "succeeded", outcome: lifetime.Succeeded, status: `{applicationState: {state: COMPLETED}, lastSubmissionAttemptTime: START, terminationTime: END, driverInfo: {}}`},
			{name: "failed", outcome: lifetime.Failed, status: `{applicationState: {state: FAILED, errorMessage: exit code 1}, lastSubmissionAttemptTime: START, terminationTime: END, driverInfo: {}}`},
			{name: "running", status: `{applicationState: {state: RUNNING}, lastSubmissionAttemptTime: START, terminationTime: null, driverInfo: {}}`},
			{name: "failing", status: `{applicationState: {state: FAILING}, lastSubmissionAttemptTime: START, terminationTime: END, driverInfo: {}}`},
			{name: "again", status: `{applicationState: {state: PENDING_RERUN}, lastSubmissionAttemptTime: START, terminationTime: END, driverInfo: {}}`},
		},
	},
}

var installProjects = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	err := suite.cluster.InstallCRDs(ctx, harness.TrainingOperator, harness.ArgoWorkflows, harness.Tekton, harness.KubeRay, harness.SparkOperator)
	if err != nil {
		return err
	}
	// Tekton's conversion webhook does not run here. Without it a PipelineRun cannot be listed in the
	// other version, and lookups of other tests keep all objects.
	const noConversion = `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	client, err := dynamic.NewForConfig(suite.cluster.Config)
	if err != nil {
		return err
	}
	_, err = client.Resource(definitions).Patch(ctx, "pipelineruns.tekton.dev", types.MergePatchType, []byte(noConversion), metav1.PatchOptions{})
	return err
})

// The built-in profiles, on the CRDs that the projects ship. An object is deleted by the default of
// its namespace for its outcome, by its own annotations, which say the opposite here, or by its
// native field. One that has not finished stays.
func TestKindsOfOtherProjects(t *testing.T) {
	parallel(t)
	for kind, p := range projects {
		t.Run(kind, func(t *testing.T) {
			parallel(t)
			s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTLSucceeded, "2s", wellknown.AnnotationDefaultTTLFailed, "1h")...)
			s.ok(installProjects())
			c := s.ofKind(kind, p.resource, !p.noStatus)
			ways := []way{
				{name: "default", set: func(trained) {}, ttls: map[lifetime.Outcome]time.Duration{lifetime.Succeeded: 2 * second}},
				{name: "own", set: byOutcome("1h", "1s"), ttls: map[lifetime.Outcome]time.Duration{lifetime.Failed: second}},
			}
			if p.native != nil {
				ways = append(ways, *p.native)
			}
			expiries, stay := map[*unstructured.Unstructured]time.Time{}, []metav1.Object{}
			for _, state := range p.states {
				for _, way := range ways {
					object := c.create(state.name+"-"+way.name, p.spec, way.set, state.tag)
					end := now()
					c.status(object.GetName(), strings.NewReplacer("START", format(end.Add(-hour)), "END", format(end)).Replace(state.status))
					if ttl, due := way.ttls[state.outcome]; due && way.except != state.name {
						expiries[object] = end.Add(ttl)
					} else {
						stay = append(stay, object)
					}
				}
			}
			for object, expiry := range expiries {
				c.notEarly(c.awaitDeletion(object), expiry)
				c.awaitGone(object)
			}
			c.outlast(now())
			for _, object := range stay {
				c.stillThere(object)
				if sent := suite.proxy.Deletes(s.name, object.GetName()); len(sent) > 0 {
					t.Errorf("DELETEs of %s: %+v", object.GetName(), sent)
				}
			}
		})
	}
}

// tag labels an object as the project's controller does in this state.
func (s state) tag(o trained) {
	for key, value := range pairs(s.labels) {
		tagged(key, value)(o)
	}
}

func format(t time.Time) string { return t.UTC().Format(time.RFC3339) }
