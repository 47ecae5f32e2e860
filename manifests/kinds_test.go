package manifests

import (
	"maps"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// served are the kinds of the built-in profiles and of more, each served by a CustomResourceDefinition that says nothing of its fields.
func served(t *testing.T, more ...*v1alpha1.KindProfile) []platform.Served {
	t.Helper()
	builtin, err := profiles.All()
	must(t, err)
	builtin = append(builtin, more...)
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	var compiled []*expression.Profile
	var definitions []expression.Definition
	defined := map[schema.GroupKind]bool{}
	define := func(profile *expression.Profile) {
		kind := profile.Kind.GroupKind()
		if kind.Group != "" && kind.Group != "batch" && !defined[kind] {
			defined[kind] = true
			definitions = append(definitions, expression.Definition{Kind: kind, Resource: profile.Resource,
				ClusterScoped: profile.ClusterScoped, Schemas: map[string]*expression.Schema{profile.Kind.Version: nil}})
		}
	}
	for _, object := range builtin {
		profile, errs := compiler.Profile(object)
		must(t, errs.ToAggregate())
		compiled = append(compiled, profile)
		define(profile)
		if profile.Runtime != nil {
			for _, runtime := range profile.Runtime.Profiles() {
				define(runtime)
			}
		}
	}
	return platform.SnapshotOf(compiled, definitions).Served()
}

// covered are the static configurations and, beside them, what the controller makes of built-in profiles and policies.
func covered(t *testing.T, policies ...string) []webhook {
	t.Helper()
	return coveredWith(t, &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller"}, policies...)
}

func coveredWith(t *testing.T, input *webhookconfig.Input, policies ...string) []webhook {
	t.Helper()
	objects := build(t, "base")
	for _, text := range policies {
		policy := &v1alpha1.LifecyclePolicy{}
		must(t, yaml.UnmarshalStrict([]byte(text), policy))
		input.Policies = append(input.Policies, policy)
	}
	mutating, validating := planned(t, input, objects)
	return webhooks(t, append(objects, runtime.Object(mutating), runtime.Object(validating)))
}

// planned are the configurations that the controller keeps beside the static ones.
func planned(t *testing.T, input *webhookconfig.Input, static []runtime.Object,
) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	t.Helper()
	convert := func(from, to any) {
		text, err := yaml.Marshal(from)
		must(t, err)
		must(t, yaml.Unmarshal(text, to))
	}
	staticValidating, out := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	convert(only[*admissionv1.ValidatingWebhookConfiguration](static)[0], staticValidating)
	mutating, validating := webhookconfig.Configurations(input, only[*admissionv1.MutatingWebhookConfiguration](static)[0], staticValidating)
	convert(validating, out)
	return mutating, out
}

// everywhere is a kind that the controller may delete in all namespaces.
func everywhere(resource string) discovery.Place {
	return discovery.Place{Kind: discovery.Kind{GroupVersionKind: kinds[resource], Resource: resource}, Namespaces: []string{""}}
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
	"JobSet, key on the second Job template":   {resource: "jobsets", new: "{spec: {replicatedJobs: [{}, {template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, TTL in a Pod template":            {resource: "jobsets", new: "{spec: {replicatedJobs: [{template: {spec: {template: {spec: {ttlSecondsAfterFinished: 1}}}}}]}}", wants: "- validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"plain JobSet, in use":                     {resource: "jobsets", new: "{spec: {}}", namespace: "in-use", wants: "defaults.kinds.curfew.dev validate.jobsets.jobset.x-k8s.io.curfew.dev"},
	"new JobSet, deletionTimestamp":            {resource: "jobsets", new: "{metadata: {name: a, deletionTimestamp: '2026-08-01T00:00:00Z'}}", namespace: "in-use", wants: "defaults.kinds.curfew.dev validate.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet in Curfew's own namespace":         {resource: "jobsets", new: "{spec: {ttlSecondsAfterFinished: 0}}", namespace: "in-use own", wants: none},
	"JobSet, suspended, in use":                {resource: "jobsets", old: "{spec: {suspend: false, ttlSecondsAfterFinished: 5}}", new: "{spec: {suspend: true, ttlSecondsAfterFinished: 5}}", namespace: "in-use", wants: none},
	"JobSet, TTL changed, in use":              {resource: "jobsets", old: "{spec: {ttlSecondsAfterFinished: 6}}", new: "{spec: {ttlSecondsAfterFinished: 5}}", namespace: "in-use", wants: "- validate.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, TTL taken away":                   {resource: "jobsets", old: "{spec: {ttlSecondsAfterFinished: 6}}", new: "{spec: {}}", wants: "changed-defaults-4.kinds.curfew.dev validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
	"JobSet, annotation of others comes":       {resource: "jobsets", old: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}}}", new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true', a: b}}}", wants: none},
	"plain TrainJob":                           {resource: "trainjobs", new: "{spec: {runtimeRef: {name: torch}, activeDeadlineSeconds: 5}}", wants: none},
	"TrainJob, resumed":                        {resource: "trainjobs", old: "{spec: {suspend: true}}", new: "{spec: {suspend: false}}", namespace: "in-use", wants: none},
	"plain TrainingRuntime":                    {resource: "trainingruntimes", new: "{spec: {template: {spec: {replicatedJobs: [{}]}}}}", wants: none},
	"ClusterTrainingRuntime with a TTL":        {resource: "clustertrainingruntimes", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", wants: "runtimes.kinds.curfew.dev validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"ClusterTrainingRuntime, TTL removed":      {resource: "clustertrainingruntimes", old: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", new: "{metadata: {name: a}}", wants: "runtimes.kinds.curfew.dev validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"ClusterTrainingRuntime, stamp removed":    {resource: "clustertrainingruntimes", old: "{metadata: {name: a, annotations: {curfew.dev/default-since: x}}}", new: "{metadata: {name: a}}", wants: "runtimes.kinds.curfew.dev validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"TrainingRuntime with the KEP's field":     {resource: "trainingruntimes", new: "{spec: {ttlSecondsAfterFinished: 5}}", wants: "runtimes.kinds.curfew.dev validate-marked.trainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"TrainingRuntime, the KEP's field changes": {resource: "trainingruntimes", old: "{spec: {ttlSecondsAfterFinished: 6}}", new: "{spec: {ttlSecondsAfterFinished: 5}}", wants: "runtimes.kinds.curfew.dev validate-marked.trainingruntimes.trainer.kubeflow.org.curfew.dev"},
	"ClusterTrainingRuntime, others' changes":  {resource: "clustertrainingruntimes", old: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h, a: b}}}", wants: none},
	"Workflow, status is written":              {resource: "workflows", old: "{spec: {}}", new: "{spec: {}, status: {phase: Running}}", namespace: "in-use", wants: none},
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
		"configmaps":              {Version: "v1", Kind: "ConfigMap"}, "events": {Version: "v1", Kind: "Event"},
		"nodes": {Version: "v1", Kind: "Node"}, "services": {Version: "v1", Kind: "Service"}, "scales": {Group: "autoscaling", Version: "v1", Kind: "Scale"},
		"persistentvolumes": {Version: "v1", Kind: "PersistentVolume"}, "persistentvolumeclaims": {Version: "v1", Kind: "PersistentVolumeClaim"},
		"leases":            {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
		"clusterroles":      {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		"things":            {Group: "example.com", Version: "v1beta3", Kind: "Thing"},
		"tokenreviews":      {Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
		"validatingwebhook": {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ClusterWebhookConfiguration"},
	})
}

const (
	byLabel      = "- validate-labels.curfew.dev"
	byLabelInUse = "- validate-labels-in-use.curfew.dev"
	controllerSA = "system:serviceaccount:curfew-system:curfew-controller"
	labelledOnly = "{metadata: {name: a, labels: {curfew.dev/ttl: 2026-12-24}}}"
	bare         = "{metadata: {name: a, labels: {app: x}}}"
)

func labelledWith(labels string) string { return "{metadata: {name: a, labels: {" + labels + "}}}" }

// labelRequests are the rows for kinds without a profile.
var labelRequests = map[string]request{
	"plain ConfigMap":                      {resource: "configmaps", new: bare, wants: none},
	"plain ConfigMap, in use":              {resource: "configmaps", new: bare, namespace: "in-use pods-in-use", wants: none},
	"ConfigMap with annotations":           {resource: "configmaps", new: "{metadata: {name: a, annotations: {curfew.dev/ttl: 2026-12-24, curfew.dev/protect: 'true'}}}", wants: none},
	"ConfigMap with a label":               {resource: "configmaps", new: labelledOnly, wants: byLabel},
	"ConfigMap with a label, in use":       {resource: "configmaps", new: labelledOnly, namespace: "in-use", wants: byLabelInUse},
	"ConfigMap of Curfew's":                {resource: "configmaps", new: labelledOnly, namespace: "own", wants: none},
	"new ConfigMap, deletionTimestamp":     {resource: "configmaps", new: "{metadata: {name: a, deletionTimestamp: '2026-08-01T00:00:00Z', labels: {curfew.dev/ttl: 2026-12-24}}}", wants: byLabel},
	"ConfigMap with another key":           {resource: "configmaps", new: labelledWith("curfew.dev/ttl-source: x"), wants: none},
	"ConfigMap with Kyverno's label":       {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), wants: none},
	"ConfigMap, label comes":               {resource: "configmaps", old: bare, new: labelledOnly, wants: byLabel},
	"ConfigMap, label goes":                {resource: "configmaps", old: labelledOnly, new: bare, wants: none},
	"ConfigMap, label stays":               {resource: "configmaps", old: labelledOnly, new: labelledWith("curfew.dev/ttl: 2026-12-24, a: b"), wants: none},
	"ConfigMap, label stays, protected":    {resource: "configmaps", old: labelledOnly, new: "{metadata: {name: a, labels: {curfew.dev/ttl: 2026-12-24}, annotations: {curfew.dev/protect: 'yes'}}}", wants: byLabel},
	"ConfigMap, two of them":               {resource: "configmaps", new: labelledWith("curfew.dev/ttl-after-failed: 1h, curfew.dev/ttl-after-succeeded: 1h"), wants: "- validate-labels-failed.curfew.dev,validate-labels-succeeded.curfew.dev"},
	"ConfigMap, protected by a label":      {resource: "configmaps", new: labelledWith("curfew.dev/protect: 'true'"), wants: "- validate-labels-protect.curfew.dev"},
	"ConfigMap, all of them":               {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 2026-12-24, curfew.dev/ttl-after-finished: 1h, curfew.dev/active-deadline: 1h"), wants: "- validate-labels-deadline.curfew.dev,validate-labels-finished.curfew.dev,validate-labels.curfew.dev"},
	"ConfigMap, one in the place of other": {resource: "configmaps", old: labelledWith("curfew.dev/ttl-after-finished: 1h"), new: labelledOnly, wants: byLabel},
	"ConfigMap, one beside another":        {resource: "configmaps", old: labelledWith("curfew.dev/ttl-after-finished: 1h"), new: labelledWith("curfew.dev/ttl-after-finished: 1h, curfew.dev/ttl: 2026-12-24"), wants: "- validate-labels-finished.curfew.dev,validate-labels.curfew.dev"},
	"ConfigMap, back to the annotation":    {resource: "configmaps", old: labelledOnly, new: labelledWith("curfew.dev/ttl-after-finished: 1h"), wants: "- validate-labels-finished.curfew.dev"},
	// Plain, valid values are not sent.
	"plain label":                         {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d12h, app: x"), wants: none},
	"plain label, custom kind":            {resource: "things", new: labelledWith("curfew.dev/ttl: 30m"), wants: none},
	"plain label, with others":            {resource: "things", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 30m}, annotations: {example.com/a: b}}}", wants: none},
	"plain label, in use":                 {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d12h"), namespace: "in-use", wants: byLabelInUse},
	"plain label, author may not":         {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d"), mayNot: "someone", wants: byLabel},
	"plain label, controller may not":     {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d"), mayNot: controllerSA, wants: byLabel},
	"cluster-scoped, controller may not":  {resource: "clusterroles", new: labelledWith("curfew.dev/ttl: 1d"), mayNot: controllerSA, wants: byLabel},
	"plain label, annotation of Curfew's": {resource: "configmaps", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 30m}, annotations: {curfew.dev/ttl: 30m}}}", wants: byLabel},
	"plain label, another of Curfew's":    {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 30m, curfew.dev/protect: 'true'"), wants: "- validate-labels-protect.curfew.dev"},
	"plain label changes, in use":         {resource: "configmaps", old: labelledWith("curfew.dev/ttl: 30m"), new: labelledWith("curfew.dev/ttl: 31m"), namespace: "in-use", wants: byLabelInUse},
	"seconds":                             {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 90s"), wants: byLabel},
	"nothing":                             {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 0m"), wants: byLabel},
	"sum of three":                        {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d1h1m"), wants: byLabel},
	"empty":                               {resource: "configmaps", new: labelledWith("curfew.dev/ttl: ''"), wants: byLabel},

	// Status writes of many kinds keep what they say of labels.
	"Node status":               {resource: "nodes", sub: "status", old: labelledOnly, new: "{metadata: {name: a, labels: {curfew.dev/ttl: 2026-12-24}}, status: {phase: Running}}", wants: none},
	"Node status, label comes":  {resource: "nodes", sub: "status", old: bare, new: labelledWith("curfew.dev/ttl: 2026-12-24"), wants: byLabel},
	"PVC status, label, in use": {resource: "persistentvolumeclaims", sub: "status", old: bare, new: labelledOnly, namespace: "in-use", wants: byLabelInUse},
	"Service status, protected": {resource: "services", sub: "status", old: labelledOnly, new: "{metadata: {name: a, labels: {curfew.dev/ttl: 2026-12-24}, annotations: {curfew.dev/protect: 'true'}}}", wants: byLabel},
	"custom kind's status":      {resource: "things", sub: "status", old: bare, new: labelledOnly, wants: byLabel},
	"a Scale":                   {resource: "scales", sub: "scale", old: bare, new: labelledOnly, wants: none},
	"an Eviction":               {resource: "pods", sub: "eviction", new: labelledOnly, wants: none},

	"custom kind":                  {resource: "things", new: labelledOnly, wants: byLabel},
	"custom kind of strange shape": {resource: "things", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 2026-12-24}, ownerReferences: null}, spec: 5}", wants: byLabel},
	"cluster-scoped kind":          {resource: "clusterroles", new: labelledOnly, wants: byLabel},
	"LifecyclePolicy with a label": {resource: "lifecyclepolicies", old: "{metadata: {name: a}}", new: labelledOnly, wants: byLabel},
	"ReplicaSet":                   {resource: "replicasets", new: labelledOnly, wants: "- templates.curfew.dev"},
	"ReplicaSet of a Deployment":   {resource: "replicasets", user: "system:serviceaccount:kube-system:deployment-controller", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 2026-12-24}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: o, uid: u, controller: true}]}}", wants: "- templates.curfew.dev"},
	"Event":                        {resource: "events", new: labelledOnly, wants: none},
	"Lease":                        {resource: "leases", new: labelledOnly, wants: none},
	"TokenReview":                  {resource: "tokenreviews", new: labelledOnly, wants: none},
	"webhook configuration":        {resource: "validatingwebhook", new: labelledOnly, wants: none},
}

// aliasRequests are the rows for Kyverno's label where the controller runs with --kyverno-label.
var aliasRequests = map[string]request{
	"ConfigMap with the alias":             {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), wants: "- validate-labels-kyverno.curfew.dev"},
	"plain alias":                          {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 1d"), wants: none},
	"plain alias, author may not":          {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 1d"), mayNot: "someone", wants: "- validate-labels-kyverno.curfew.dev"},
	"plain alias, in use":                  {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 1d"), namespace: "in-use", wants: "- validate-labels-kyverno-in-use.curfew.dev"},
	"ConfigMap with both":                  {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24, curfew.dev/ttl: 2026-12-24"), wants: "- validate-labels.curfew.dev,validate-labels-kyverno.curfew.dev"},
	"ConfigMap with the alias and another": {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 1d, curfew.dev/protect: 'true'"), wants: "- validate-labels-protect.curfew.dev"},
	"ConfigMap, alias changes, another":    {resource: "configmaps", old: labelledWith("cleanup.kyverno.io/ttl: 1d, curfew.dev/protect: 'true'"), new: labelledWith("cleanup.kyverno.io/ttl: 2d, curfew.dev/protect: 'true'"), wants: "- validate-labels-protect.curfew.dev,validate-labels-kyverno.curfew.dev"},
	"ConfigMap, alias changes":             {resource: "configmaps", old: labelledWith("cleanup.kyverno.io/ttl: 1d"), new: labelledWith("cleanup.kyverno.io/ttl: 2d"), wants: "- validate-labels-kyverno.curfew.dev"},
	"ConfigMap, alias comes":               {resource: "configmaps", old: bare, new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), wants: "- validate-labels-kyverno.curfew.dev"},
	"ConfigMap, alias stays":               {resource: "configmaps", old: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24, a: b"), wants: none},
	"ConfigMap, alias goes":                {resource: "configmaps", old: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), new: bare, wants: none},
	"ConfigMap, alias has the word":        {resource: "configmaps", old: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24, curfew.dev/ttl: 2026-12-24"), new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), wants: "- validate-labels-kyverno.curfew.dev"},
	"Job with the alias":                   {resource: "jobs", new: metadata("labels: {cleanup.kyverno.io/ttl: 2026-12-24}"), wants: "- validate-labels-kyverno.curfew.dev"},
	"Event with the alias":                 {resource: "events", new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), wants: none},
	"ConfigMap of Curfew's with the alias": {resource: "configmaps", new: labelledWith("cleanup.kyverno.io/ttl: 2026-12-24"), namespace: "own", wants: none},
}

func TestAliasConditions(t *testing.T) {
	all := maps.Clone(labelRequests)
	delete(all, "ConfigMap with Kyverno's label")
	maps.Copy(all, aliasRequests)
	entries := coveredWith(t, &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller", Alias: true})
	env := environment.MustBaseEnvSet(oldest)
	for _, w := range entries {
		if strings.HasPrefix(w.name, "validate-labels") {
			compile(t, w, env)
		}
	}
	exercised := evaluate(t, entries, all)
	for _, w := range entries {
		if strings.HasPrefix(w.name, "validate-labels") && !exercised[w.config+" "+w.name] {
			t.Errorf("%s: no row calls it", w.name)
		}
	}
}

// What the controller knows that it may delete everywhere is not asked about; the rest is, and so is the author.
func TestDeletableConditions(t *testing.T) {
	entries := coveredWith(t, &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller",
		Places: []discovery.Place{everywhere("configmaps"), everywhere("clusterroles")}})
	for _, w := range entries {
		if w.name == "validate-labels.curfew.dev" {
			compile(t, w, environment.MustBaseEnvSet(oldest))
		}
	}
	all := maps.Clone(labelRequests)
	maps.Copy(all, map[string]request{
		"plain label, controller may not":    {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d"), mayNot: controllerSA, wants: none},
		"cluster-scoped, controller may not": {resource: "clusterroles", new: labelledWith("curfew.dev/ttl: 1d"), mayNot: controllerSA, wants: none},
		"another, controller may not":        {resource: "things", new: labelledWith("curfew.dev/ttl: 1d"), mayNot: controllerSA, wants: byLabel},
		"another":                            {resource: "things", new: labelledWith("curfew.dev/ttl: 1d"), wants: none},
	})
	evaluate(t, entries, all)
}

// Each request is asked of the static configurations and the controller's together.
func TestKindsConditions(t *testing.T) {
	all := maps.Clone(requests)
	maps.Copy(all, kindRequests)
	maps.Copy(all, labelRequests)
	evaluate(t, covered(t), all)
}

const (
	jobPolicy   = "policies.kinds.curfew.dev validate-policies.jobs.batch.curfew.dev"
	ownedJob    = "{metadata: {name: a, ownerReferences: [{apiVersion: example.com/v1, kind: Owner, name: o, uid: u, controller: true}]}, spec: {template: {spec: {}}}}"
	deadlineJob = "{metadata: {name: a, ownerReferences: [{apiVersion: example.com/v1, kind: Owner, name: o, uid: u, controller: true}]}, spec: {activeDeadlineSeconds: 5, template: {spec: {}}}}"
	taskPod     = "{metadata: {name: a, labels: {app: x}}, spec: {restartPolicy: Never}}"
)

// policyRequests are rows by the policies of the cluster.
var policyRequests = map[string]struct {
	policies []string
	rows     map[string]request
}{
	"a policy by expression": {
		[]string{"{metadata: {name: a}, spec: {match: {kinds: [{group: batch, kind: Job}], matchConditions: [{name: a, expression: 'runtime == null'}]}, defaults: {ttl: {value: 1d}}}}"},
		map[string]request{
			"plain Job":                    {resource: "jobs", new: bareJob, wants: jobPolicy},
			"Job without anything":         {resource: "jobs", new: "{metadata: {name: a}}", wants: jobPolicy},
			"Job of a CronJob":             {resource: "jobs", new: strings.Replace(ownedJob, "Owner", "CronJob", 1), wants: jobPolicy},
			"Job with an owner":            {resource: "jobs", new: ownedJob, wants: none},
			"Job with TTL annotation":      {resource: "jobs", new: ttlAnnotation, wants: "defaults-marked.curfew.dev,policies.kinds.curfew.dev validate-marked.curfew.dev"},
			"Job with native TTL":          {resource: "jobs", new: "{spec: {ttlSecondsAfterFinished: 5}}", wants: "policies.kinds.curfew.dev validate-marked.curfew.dev"},
			"Job with key on the template": {resource: "jobs", new: "{spec: {template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}}", wants: "policies.kinds.curfew.dev validate-marked.curfew.dev"},
			"plain Job, in use":            {resource: "jobs", new: bareJob, namespace: "in-use", wants: jobUse},
			"Job in Curfew's namespace":    {resource: "jobs", new: bareJob, namespace: "own", wants: none},
			"new Job, deletionTimestamp":   {resource: "jobs", new: metadata("deletionTimestamp: '2026-08-01T00:00:00Z'"), wants: jobPolicy},
			"Job untouched":                {resource: "jobs", old: bareJob, new: bareJob, wants: none},
			"plain CronJob":                {resource: "cronjobs", new: bareCronJob, wants: none},
			"plain Pod":                    {resource: "pods", new: taskPod, wants: none},
			"plain Deployment":             {resource: "deployments", new: bareJob, wants: none},
			"plain JobSet":                 {resource: "jobsets", new: "{spec: {}}", wants: none},
		},
	},
	"two policies by namespace, one of them by label as well": {
		[]string{
			"{metadata: {name: a}, spec: {match: {kinds: [{group: batch, kind: Job}], namespaceSelector: {matchLabels: {env: dev}}}, defaults: {ttl: {value: 1d}}}}",
			"{metadata: {name: b}, spec: {match: {kinds: [{group: batch, kind: '*'}, {kind: Pod}], namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}, objectSelector: {matchLabels: {app: x}}}, defaults: {ttl: {value: 2d}}}}",
		},
		map[string]request{
			"Job in neither":                {resource: "jobs", new: foreign, wants: none},
			"Job in the first":              {resource: "jobs", new: bareJob, namespace: "env=dev", wants: jobPolicy},
			"Job in the second":             {resource: "jobs", new: foreign, namespace: "team=a", wants: "policies-2.kinds.curfew.dev validate-policies-2.jobs.batch.curfew.dev"},
			"Job in the second, no label":   {resource: "jobs", new: bareJob, namespace: "team=a env=prod", wants: none},
			"Job in both":                   {resource: "jobs", new: foreign, namespace: "team=a env=dev", wants: "policies.kinds.curfew.dev,policies-2.kinds.curfew.dev validate-policies.jobs.batch.curfew.dev,validate-policies-2.jobs.batch.curfew.dev"},
			"Job in both, no label":         {resource: "jobs", new: bareJob, namespace: "team=a env=dev", wants: jobPolicy},
			"Job in both, in use":           {resource: "jobs", new: foreign, namespace: "team=a env=dev in-use", wants: jobUse},
			"Pod in the second":             {resource: "pods", new: taskPod, namespace: "team=a in-use", wants: "policies-3.kinds.curfew.dev validate-policies.pods.core.curfew.dev"},
			"Pod in the second, used":       {resource: "pods", new: taskPod, namespace: "team=a in-use pods-in-use", wants: podUse},
			"Pod in the second, no label":   {resource: "pods", new: barePod, namespace: "team=a", wants: none},
			"Pod that never ends":           {resource: "pods", new: "{metadata: {name: a, labels: {app: x}}, spec: {restartPolicy: Always}}", namespace: "team=a", wants: none},
			"Pod that does not say":         {resource: "pods", new: "{metadata: {name: a, labels: {app: x}}, spec: {}}", namespace: "team=a", wants: none},
			"Pod of a Job":                  {resource: "pods", new: "{metadata: {name: a, labels: {app: x}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: o, uid: u, controller: true}]}, spec: {restartPolicy: Never}}", namespace: "team=a", wants: none},
			"Pod with a key, in the second": {resource: "pods", new: "{metadata: {name: a, labels: {app: x, curfew.dev/ttl: 1h}}, spec: {restartPolicy: Never}}", namespace: "team=a", wants: "defaults-marked-pods.curfew.dev,policies-3.kinds.curfew.dev validate-marked-pods.curfew.dev"},
		},
	},
	"bounds of deadlines alone": {
		[]string{"{metadata: {name: a}, spec: {match: {kinds: [{group: batch, kind: '*'}, {kind: Pod}, {group: trainer.kubeflow.org, kind: TrainJob}]}, bounds: {maxDeadline: 1h, maxTTL: 1d}}}"},
		map[string]request{
			"Job without a deadline":         {resource: "jobs", new: bareJob, wants: none},
			"Job with a deadline, owned":     {resource: "jobs", new: deadlineJob, wants: "- validate-policies.jobs.batch.curfew.dev"},
			"Job with both":                  {resource: "jobs", new: "{spec: {activeDeadlineSeconds: 5, ttlSecondsAfterFinished: 5}}", wants: "- validate-marked.curfew.dev"},
			"Job, deadline changed":          {resource: "jobs", old: bareJob, new: "{spec: {activeDeadlineSeconds: 5}}", wants: "- validate-marked.curfew.dev"},
			"CronJob without a deadline":     {resource: "cronjobs", new: bareCronJob, wants: none},
			"CronJob with a deadline":        {resource: "cronjobs", new: "{spec: {jobTemplate: {spec: {activeDeadlineSeconds: 5}}}}", wants: "- validate-policies.cronjobs.batch.curfew.dev"},
			"Pod with a deadline":            {resource: "pods", new: "{spec: {activeDeadlineSeconds: 5}}", wants: "- validate-policies.pods.core.curfew.dev"},
			"Pod, deadline added":            {resource: "pods", old: taskPod, new: "{metadata: {name: a, labels: {app: x}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5}}", wants: "- validate-deadlines.pods.core.curfew.dev"},
			"Pod, deadline added, key too":   {resource: "pods", old: taskPod, new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}}, spec: {activeDeadlineSeconds: 5}}", wants: "- validate-marked-pods.curfew.dev"},
			"Pod, deadline added, pods used": {resource: "pods", old: taskPod, new: "{spec: {activeDeadlineSeconds: 5}}", namespace: "pods-in-use", wants: "- validate-pods.curfew.dev"},
			"Pod, something else":            {resource: "pods", old: "{spec: {activeDeadlineSeconds: 5}}", new: "{metadata: {name: a, labels: {b: c}}, spec: {activeDeadlineSeconds: 5}}", wants: none},
			"TrainJob with a deadline":       {resource: "trainjobs", new: "{spec: {activeDeadlineSeconds: 5}}", wants: "- validate-policies.trainjobs.trainer.kubeflow.org.curfew.dev"},
		},
	},
	"TTL labels for whatever is named": {
		[]string{
			"{metadata: {name: a}, spec: {match: {kinds: [{group: apps, kind: Deployment}, {group: trainer.kubeflow.org, kind: ClusterTrainingRuntime}, {group: batch, kind: CronJob}]}, defaults: {ttlLabel: {value: 7d}}}}",
			"{metadata: {name: b}, spec: {match: {objectSelector: {matchLabels: {app: x}}}, defaults: {ttlLabel: {value: 1d}}}}",
		},
		map[string]request{
			"Deployment":                    {resource: "deployments", new: bareJob, wants: "policies-3.kinds.curfew.dev validate-policies.deployments.apps.curfew.dev"},
			"Deployment, in use":            {resource: "deployments", new: bareJob, namespace: "in-use", wants: "policies-3.kinds.curfew.dev validate-policies.deployments.apps.curfew.dev"},
			"Deployment, template TTL":      {resource: "deployments", new: "{spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-failed: 1h}}}}}", wants: "policies-3.kinds.curfew.dev templates.curfew.dev"},
			"StatefulSet":                   {resource: "statefulsets", new: foreign, wants: none},
			"CronJobs are never changed":    {resource: "cronjobs", new: bareCronJob, wants: none},
			"ClusterTrainingRuntime":        {resource: "clustertrainingruntimes", new: "{spec: {}}", wants: "policies-3.kinds.curfew.dev validate-policies.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"},
			"TrainingRuntime":               {resource: "trainingruntimes", new: "{metadata: {name: a, labels: {app: x}}}", wants: none},
			"JobSet, by label":              {resource: "jobsets", new: "{metadata: {name: a, labels: {app: x}}}", wants: "policies-4.kinds.curfew.dev validate-policies.jobsets.jobset.x-k8s.io.curfew.dev"},
			"JobSet, by label and with TTL": {resource: "jobsets", new: "{metadata: {name: a, labels: {app: x}}, spec: {ttlSecondsAfterFinished: 5}}", wants: "policies-4.kinds.curfew.dev validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"},
			"JobSet, other label":           {resource: "jobsets", new: "{metadata: {name: a, labels: {app: y}}}", wants: none},
			"Job, by label":                 {resource: "jobs", new: foreign, wants: "policies.kinds.curfew.dev validate-policies.jobs.batch.curfew.dev"},
		},
	},
	"bounds of labels": {
		[]string{
			"{metadata: {name: a}, spec: {match: {kinds: [{kind: ConfigMap}, {group: example.com, kind: '*'}], objectSelector: {matchLabels: {app: x}}}, bounds: {maxTTLLabel: 90d}}}",
			"{metadata: {name: b}, spec: {match: {kinds: [{group: rbac.authorization.k8s.io, kind: ClusterRole}], objectSelector: {matchExpressions: [{key: app, operator: Near, values: [x]}]}}, bounds: {latestDate: 2026-12-31}}}",
			"{metadata: {name: c}, spec: {bounds: {maxDeadline: 1h}}}",
		},
		map[string]request{
			"ConfigMap that it bounds": {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d, app: x"), wants: byLabel},
			// Selectors are left to Curfew.
			"ConfigMap that it does not":  {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d, app: z"), wants: byLabel},
			"ConfigMap without labels":    {resource: "configmaps", new: "{metadata: {name: a}}", wants: none},
			"custom kind that it bounds":  {resource: "things", new: labelledWith("curfew.dev/ttl: 1d, app: x"), wants: byLabel},
			"kind of another policy":      {resource: "clusterroles", new: labelledWith("curfew.dev/ttl: 1d"), wants: byLabel},
			"kind of none":                {resource: "replicasets", new: labelledWith("curfew.dev/ttl: 1d, app: x"), wants: "- templates.curfew.dev"},
			"ConfigMap in use, unbounded": {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d, app: z"), namespace: "in-use", wants: byLabelInUse},
		},
	},
	"bounds of everything": {
		[]string{"{metadata: {name: a}, spec: {bounds: {minTTLLabel: 1h}}}"},
		map[string]request{
			"ConfigMap":           {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d"), wants: byLabel},
			"plain ConfigMap":     {resource: "configmaps", new: bare, wants: none},
			"cluster-scoped kind": {resource: "clusterroles", new: labelledWith("curfew.dev/ttl: 1d"), wants: byLabel},
		},
	},
	"what a policy cannot say": {
		[]string{
			"{metadata: {name: a}, spec: {match: {objectSelector: {matchExpressions: [{key: app, operator: Near, values: [x]}]}}, defaults: {ttl: {value: 1d}}}}",
			"{metadata: {name: b}, spec: {bounds: {maxTTL: 1d}, warnBelow: 5m}}",
			"{metadata: {name: c}, spec: {match: {kinds: [{group: trainer.kubeflow.org, kind: ClusterTrainingRuntime}], namespaceSelector: {matchLabels: {a: b}}}, defaults: {ttlLabel: {value: 7d}}}}",
		},
		map[string]request{
			"plain Job":              {resource: "jobs", new: foreign, wants: none},
			"plain JobSet":           {resource: "jobsets", new: "{spec: {}}", wants: none},
			"ClusterTrainingRuntime": {resource: "clustertrainingruntimes", new: "{spec: {}}", namespace: "a=b", wants: none},
		},
	},
}

// TestPoliciesConditions: an object is sent for each pair of selectors that selects it, and validated once where it is sent anyway.
func TestPoliciesConditions(t *testing.T) {
	for name, test := range policyRequests {
		t.Run(name, func(t *testing.T) {
			entries := covered(t, test.policies...)
			env := environment.MustBaseEnvSet(oldest)
			for _, w := range entries {
				if strings.Contains(w.name, "policies") || strings.Contains(w.name, "deadlines") || strings.Contains(w.name, "labels") {
					compile(t, w, env)
				}
			}
			evaluate(t, entries, test.rows)
		})
	}
}
