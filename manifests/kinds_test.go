package manifests

import (
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/coverage"
	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// served are the kinds of the built-in profiles, each served by a CustomResourceDefinition that says nothing of its fields.
func served(t *testing.T) []registry.Served {
	t.Helper()
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	var compiled []*expression.Profile
	var definitions []expression.Definition
	for _, object := range builtin {
		profile, errs := compiler.Profile(object)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		compiled = append(compiled, profile)
		if profile.Kind.Group != "" && profile.Kind.Group != "batch" {
			definitions = append(definitions, expression.Definition{Kind: profile.Kind.GroupKind(), Resource: profile.Resource,
				ClusterScoped: profile.ClusterScoped, Schemas: map[string]*expression.Schema{profile.Kind.Version: nil}})
		}
	}
	return registry.ServedBy(compiled, definitions)
}

// covered are the static configurations and, beside them, what the controller makes of built-in profiles and policies.
func covered(t *testing.T, policies ...string) []webhook {
	t.Helper()
	objects := build(t, "base")
	in := &coverage.Input{Kinds: served(t), Namespace: "curfew-system"}
	for _, text := range policies {
		policy := &v1alpha1.LifecyclePolicy{}
		if err := yaml.UnmarshalStrict([]byte(text), policy); err != nil {
			t.Fatal(err)
		}
		in.Policies = append(in.Policies, policy)
	}
	mutating, validating := coverage.Configurations(in, only[*admissionv1.MutatingWebhookConfiguration](objects)[0],
		only[*admissionv1.ValidatingWebhookConfiguration](objects)[0], admissionv1.Ignore)
	return webhooks(t, append(objects, runtime.Object(mutating), runtime.Object(validating)))
}

func TestKindsConditionsCompileOnTheOldestServer(t *testing.T) {
	env := environment.MustBaseEnvSet(oldest)
	for _, w := range covered(t) {
		compile(t, w, env)
	}
}

// kindRequests are the rows for kinds with a profile. Policies widen none of them.
var kindRequests = map[string]request{
	"plain JobSet":                             {resource: "jobsets", new: "{spec: {replicatedJobs: [{template: {spec: {template: {spec: {}}}}}]}}", wants: none},
	"JobSet without a spec":                    {resource: "jobsets", new: "{metadata: {name: a}}", wants: none},
	"JobSet with a list of nothing":            {resource: "jobsets", new: "{spec: {replicatedJobs: null}}", wants: none},
	"JobSet of strange shapes":                 {resource: "jobsets", new: "{spec: {replicatedJobs: 5}}", wants: none},
	"JobSet, a map for a list":                 {resource: "jobsets", new: "{spec: {replicatedJobs: {a: b}}}", wants: none},
	"JobSet, annotations of strange shape":     {resource: "jobsets", new: "{spec: {replicatedJobs: [{template: {metadata: {annotations: [1, {a: b}], labels: 7}}}, 3]}}", wants: none},
	"JobSet with keys of others":               {resource: "jobsets", new: "{metadata: {name: a, annotations: {curfew.device/a: b}, labels: {a: b}}}", wants: none},
	"JobSet with TTL annotation":               {resource: "jobsets", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", wants: "defaults-marked.kinds.curfew.dev validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet with TTL label":                    {resource: "jobsets", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 1h}}}", wants: "defaults-marked.kinds.curfew.dev validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet with native TTL":                   {resource: "jobsets", new: "{spec: {ttlSecondsAfterFinished: 0}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, key on the second Job template":   {resource: "jobsets", new: "{spec: {replicatedJobs: [{}, {template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, key on a Pod template":            {resource: "jobsets", new: "{spec: {replicatedJobs: [{template: {spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-failed: 1h}}}}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, TTL in a Job template":            {resource: "jobsets", new: "{spec: {replicatedJobs: [{template: {spec: {ttlSecondsAfterFinished: 1}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, TTL in a Pod template":            {resource: "jobsets", new: "{spec: {replicatedJobs: [{template: {spec: {template: {spec: {ttlSecondsAfterFinished: 1}}}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"plain JobSet, in use":                     {resource: "jobsets", new: "{spec: {}}", namespace: "in-use", wants: "defaults.kinds.curfew.dev validate.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet being deleted":                     {resource: "jobsets", new: "{metadata: {name: a, deletionTimestamp: '2026-08-01T00:00:00Z'}}", namespace: "in-use", wants: none},
	"JobSet in Curfew's own namespace":         {resource: "jobsets", new: "{spec: {ttlSecondsAfterFinished: 0}}", namespace: "in-use own", wants: none},
	"JobSet, suspended, in use":                {resource: "jobsets", old: "{spec: {suspend: false, ttlSecondsAfterFinished: 5}}", new: "{spec: {suspend: true, ttlSecondsAfterFinished: 5}}", namespace: "in-use", wants: none},
	"JobSet, TTL changed, in use":              {resource: "jobsets", old: "{spec: {ttlSecondsAfterFinished: 6}}", new: "{spec: {ttlSecondsAfterFinished: 5}}", namespace: "in-use", wants: "- validate.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, TTL taken away":                   {resource: "jobsets", old: "{spec: {ttlSecondsAfterFinished: 6}}", new: "{spec: {}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, annotation comes":                 {resource: "jobsets", old: "{metadata: {name: a}}", new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, annotation of others comes":       {resource: "jobsets", old: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}}}", new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true', a: b}}}", wants: none},
	"JobSet, templates changed":                {resource: "jobsets", old: "{spec: {replicatedJobs: [{name: a}]}}", new: "{spec: {replicatedJobs: [{name: a, template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"plain TrainJob":                           {resource: "trainjobs", new: "{spec: {runtimeRef: {name: torch}, activeDeadlineSeconds: 5}}", wants: none},
	"TrainJob, deadline added":                 {resource: "trainjobs", old: "{spec: {}}", new: "{spec: {activeDeadlineSeconds: 5}}", wants: "- validate-marked.trainjobs.trainer.kubeflow.org.curfew.dev"},
	"TrainJob, deadline annotation added":      {resource: "trainjobs", old: "{metadata: {name: a}}", new: "{metadata: {name: a, annotations: {curfew.dev/active-deadline: 1h}}}", namespace: "in-use", wants: "- validate.trainjobs.trainer.kubeflow.org.curfew.dev"},
	"TrainJob, resumed":                        {resource: "trainjobs", old: "{spec: {suspend: true}}", new: "{spec: {suspend: false}}", namespace: "in-use", wants: none},
	"plain TrainingRuntime":                    {resource: "trainingruntimes", new: "{spec: {template: {spec: {replicatedJobs: [{}]}}}}", wants: none},
	"TrainingRuntime, TTL in the template":     {resource: "trainingruntimes", new: "{spec: {template: {spec: {ttlSecondsAfterFinished: 5}}}}", wants: "- validate-marked.trainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"TrainingRuntime, deadline of a Job":       {resource: "trainingruntimes", new: "{spec: {template: {spec: {replicatedJobs: [{template: {spec: {activeDeadlineSeconds: 5}}}]}}}}", wants: "- validate-marked.trainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"plain ClusterTrainingRuntime":             {resource: "clustertrainingruntimes", new: "{spec: {template: {spec: {replicatedJobs: [{}]}}}}", wants: none},
	"ClusterTrainingRuntime with a TTL":        {resource: "clustertrainingruntimes", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", wants: "- validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"ClusterTrainingRuntime, TTL in a Job":     {resource: "clustertrainingruntimes", new: "{spec: {template: {spec: {replicatedJobs: [{template: {spec: {ttlSecondsAfterFinished: 5}}}]}}}}", wants: "- validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"ClusterTrainingRuntime, TTL removed":      {resource: "clustertrainingruntimes", old: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", new: "{metadata: {name: a}}", wants: "- validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"ClusterTrainingRuntime, others' changes":  {resource: "clustertrainingruntimes", old: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h, a: b}}}", wants: none},
	"Workflow, TTL by outcome":                 {resource: "workflows", new: "{spec: {ttlStrategy: {secondsAfterFailure: 5}}}", wants: "- validate-marked.workflows.argoproj.io.curfew.dev"},
	"Workflow, status is written":              {resource: "workflows", old: "{spec: {}}", new: "{spec: {}, status: {phase: Running}}", namespace: "in-use", wants: none},
	"PyTorchJob, key on the template":          {resource: "pytorchjobs", new: "{spec: {pytorchReplicaSpecs: {Worker: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}}}}}}", wants: "- validate-marked.pytorchjobs.kubeflow.org.curfew.dev"},
	"AppWrapper, a Deployment among its parts": {resource: "appwrappers", new: "{spec: {components: [{template: {spec: {template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}}}, {template: {data: x}}]}}", wants: "- validate-marked.appwrappers.workload.codeflare.dev.curfew.dev"},
	"Volcano's Job is no Job":                  {resource: "volcanojobs", new: "{spec: {}}", namespace: "in-use", wants: "defaults.kinds.curfew.dev validate.jobs.batch.volcano.sh.curfew.dev"},
}

func init() {
	maps.Copy(kinds, map[string]schema.GroupVersionKind{
		"jobsets":                 {Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
		"trainjobs":               {Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"},
		"trainingruntimes":        {Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainingRuntime"},
		"clustertrainingruntimes": {Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "ClusterTrainingRuntime"},
		"workflows":               {Group: "argoproj.io", Version: "v1alpha1", Kind: "Workflow"},
		"pytorchjobs":             {Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"},
		"appwrappers":             {Group: "workload.codeflare.dev", Version: "v1beta2", Kind: "AppWrapper"},
		"volcanojobs":             {Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"},
	})
}

// Each request is asked of the static configurations and the controller's together: at most one entry of a side may answer.
func TestKindsConditions(t *testing.T) {
	all := maps.Clone(requests)
	maps.Copy(all, kindRequests)
	evaluate(t, covered(t), all)
}
