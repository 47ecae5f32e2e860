package platform_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func builtin(t *testing.T) *platform.Store {
	t.Helper()
	all, err := profiles.All()
	must(t, err)
	out, err := platform.New(all)
	must(t, err)
	return out
}

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	must(t, yaml.UnmarshalStrict([]byte(text), out))
	return out
}

var job = schema.GroupKind{Group: "batch", Kind: "Job"}

var cronJob = schema.GroupKind{Group: "batch", Kind: "CronJob"}

func cronJobProfile(t *testing.T, name string) *v1alpha1.KindProfile {
	return parsed[v1alpha1.KindProfile](t, "{metadata: {name: "+name+"}, spec: {kind: {group: batch, version: v1, kind: CronJob, resource: cronjobs}}}")
}

// Jobs and Pods are read by code of their own, at admission as in feeds: a KindProfile for them
// that came past admission is an error in its status, and changes nothing.
func TestProfileForAKindWithCodeOfItsOwn(t *testing.T) {
	for kind, own := range map[string]*policy.Profile{"{group: batch, version: v1, kind: Job, resource: jobs}": policy.JobProfile, "{version: v1, kind: Pod, resource: pods}": policy.PodProfile} {
		known := builtin(t)
		before := known.Snapshot().Compiled(own.Kind.GroupKind())
		profile := parsed[v1alpha1.KindProfile](t, `{metadata: {name: mine}, spec: {kind: `+kind+`, state: {finished: "true", finishTime: "object.metadata.creationTimestamp", outcome: "'Succeeded'"}}}`)
		errs := known.SetProfile(profile)
		if want := "spec.kind: Forbidden: Curfew has code of its own for " + own.Kind.Kind + "s, which no KindProfile replaces: remove this one"; len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%s: %v, want %s", kind, errs, want)
		}
		snapshot := known.Snapshot()
		if snapshot.Profiles[own.Kind.GroupKind()] != own || snapshot.Compiled(own.Kind.GroupKind()) != before {
			t.Errorf("%s: the KindProfile applies", kind)
		}
	}
}

func TestOfTwoProfilesForOneKindTheFirstByNameHolds(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		known := builtin(t)
		for _, name := range order {
			if errs := known.SetProfile(cronJobProfile(t, name)); len(errs) > 0 {
				t.Fatal(errs)
			}
		}
		if have := known.Snapshot().Profiles[cronJob].Name; have != "a" {
			t.Errorf("added as %v: %s holds, want a", order, have)
		}
		known.PutProfile("a", nil)
		if have := known.Snapshot().Profiles[cronJob].Name; have != "b" {
			t.Errorf("without a: %s holds, want b", have)
		}
		known.PutProfile("b", nil)
		if have := known.Snapshot().Profiles[cronJob]; have != policy.CronJobProfile {
			t.Errorf("without both: %s holds, want the built-in one", have.Name)
		}
	}
}

func TestWithLeavesTheRestAsItWas(t *testing.T) {
	known := builtin(t)
	set := func(name, ttl string) *v1alpha1.LifecyclePolicy {
		return parsed[v1alpha1.LifecyclePolicy](t, "{metadata: {name: "+name+"}, spec: {defaults: {ttl: {value: "+ttl+"}}}}")
	}
	for _, object := range []*v1alpha1.LifecyclePolicy{set("a", "1d"), set("b", "1d")} {
		if errs := known.SetPolicy(object); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	before := known.Snapshot()
	compiler := expression.NewCompiler(8)
	posted, errs := compiler.Policy(set("b", "2d"))
	must(t, errs.ToAggregate())
	mine, errs := compiler.Profile(cronJobProfile(t, "mine"))
	must(t, errs.ToAggregate())
	after := before.With([]*expression.Policy{posted}, []*expression.Profile{mine})
	if len(after.Policies) != 2 || after.Policies[0] != before.Policies[0] || after.Policies[1] != posted || after.Profiles[cronJob].Name != "mine" {
		t.Errorf("with them: %v, %v", after.Policies, after.Profiles[cronJob])
	}
	if before.Policies[1] == posted || before.Profiles[cronJob] != policy.CronJobProfile || known.Snapshot() != before {
		t.Error("what others read was changed")
	}
	known.PutPolicy("b", nil)
	if len(after.Policies) != 2 || len(known.Snapshot().Policies) != 1 {
		t.Error("a later change reached what was handed out")
	}
	if before.With(nil, nil) != before {
		t.Error("nothing to add made another snapshot")
	}
}

const trainJob = `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: ml}, spec: {runtimeRef: {name: torch}}}`

// source is a Source over one namespace and a function that reads runtimes.
type source struct {
	snapshot  *platform.Snapshot
	namespace *resolution.NamespacePolicy
	read      func(*expression.Reference) (map[string]any, error)
}

func (s source) Snapshot(context.Context) (*platform.Snapshot, error) { return s.snapshot, nil }

func (s source) Namespace(context.Context, string) (*resolution.NamespacePolicy, error) {
	if s.namespace == nil {
		return nil, platform.ErrUnknown
	}
	return s.namespace, nil
}

func (s source) Runtime(_ context.Context, reference *expression.Reference) (map[string]any, error) {
	return s.read(reference)
}

// PodCounter implements [platform.Source].
func (source) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, platform.ErrUnknown
}

func TestContextOf(t *testing.T) {
	known := builtin(t)
	selecting := parsed[v1alpha1.LifecyclePolicy](t, `{metadata: {name: gpu}, spec: {match: {namespaceSelector: {matchLabels: {team: ml}}, matchConditions: [{name: gpu, expression: "runtime.metadata.name == 'torch'"}]}, defaults: {ttl: {value: 2h}}}}`)
	if errs := known.SetPolicy(selecting); len(errs) > 0 {
		t.Fatal(errs)
	}
	snapshot := known.Snapshot()
	object := *parsed[map[string]any](t, trainJob)
	facts := policy.FactsOfObject(snapshot.Profiles.For(schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"}), object)
	namespace := resolution.ParseNamespace("ml", nil, map[string]string{"team": "ml"})
	torch := map[string]any{"metadata": map[string]any{"name": "torch", "annotations": map[string]any{wellknown.AnnotationTTL: "1d"}}}
	for name, test := range map[string]struct {
		read     func(*expression.Reference) (map[string]any, error)
		ttl      string
		missing  bool
		policies int
		failures int
		err, why string
	}{
		"what the runtime says": {read: func(reference *expression.Reference) (map[string]any, error) {
			if have := reference.String(); have != "ClusterTrainingRuntime torch" || !reference.Whole {
				t.Errorf("read %s (whole: %t)", have, reference.Whole)
			}
			return torch, nil
		}, ttl: "1d", policies: 1},
		"no such runtime":                          {read: func(*expression.Reference) (map[string]any, error) { return nil, nil }, missing: true, policies: 1, failures: 1},
		"a runtime that is not known says nothing": {read: func(*expression.Reference) (map[string]any, error) { return nil, platform.ErrUnknown }, policies: 1, failures: 1},
		"a runtime that cannot be read for the moment keeps": {read: func(*expression.Reference) (map[string]any, error) {
			return nil, &platform.UnreadableError{Err: errors.New("no route")}
		}, missing: true, policies: 1, failures: 1},
		"a runtime that is too large keeps": {read: func(*expression.Reference) (map[string]any, error) {
			return nil, fmt.Errorf("reading: %w", apierrors.NewRequestEntityTooLargeError("3 MB"))
		}, missing: true, policies: 1, failures: 1, why: "3 MB"},
		"it cannot be read": {read: func(*expression.Reference) (map[string]any, error) { return nil, errors.New("no route") }, err: "reading ClusterTrainingRuntime torch: no route"},
	} {
		t.Run(name, func(t *testing.T) {
			scope, err := platform.ContextOf(t.Context(), source{snapshot, namespace, test.read}, platform.Whole(facts, object))
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			must(t, err)
			ttl, missing := "", false
			if scope.Runtime != nil {
				missing = scope.Runtime.Missing
				if setting := scope.Runtime.TTL.For(lifetime.Failed); setting != nil {
					ttl = setting.Text
				}
			}
			if test.why != "" && !strings.Contains(scope.Runtime.Err.Error(), test.why) {
				t.Errorf("the runtime is unusable for %v, want %s", scope.Runtime.Err, test.why)
			}
			if scope.Namespace != namespace || ttl != test.ttl || missing != test.missing || len(scope.Policies) != test.policies || len(scope.Failures) != test.failures {
				t.Errorf("runtime %q (missing %v), %d policies, %d failures: want %+v", ttl, missing, len(scope.Policies), len(scope.Failures), test)
			}
		})
	}
	// Without a policy that reads the runtime, only fields that may have a TTL or a deadline are read.
	reference, other := &expression.Reference{}, builtin(t)
	if errs := other.SetProfile(parsed[v1alpha1.KindProfile](t, `{metadata: {name: runs}, spec: {kind: {group: x.dev, version: v1, kind: Run, resource: runs},
  state: {finished: "false", finishTime: "null", outcome: "'Failed'"}, runtime: {reference: {name: spec.plan, defaultKind: ClusterTrainingRuntime}, kinds: [
  {group: trainer.kubeflow.org, version: v1alpha1, kind: ClusterTrainingRuntime, resource: clustertrainingruntimes, scope: Cluster, ttl: [spec.keep]}]}}}`)); len(errs) > 0 {
		t.Fatal(errs)
	}
	_, err := platform.ContextOf(t.Context(), source{other.Snapshot(), namespace, func(read *expression.Reference) (map[string]any, error) {
		reference = read
		return torch, nil
	}}, platform.Whole(facts, object))
	must(t, err)
	fields := fmt.Sprint(reference.Fields)
	for _, path := range []string{"spec.ttlSecondsAfterFinished", "spec.runPolicy.ttlSecondsAfterFinished", "spec.activeDeadlineSeconds", "spec.runPolicy.activeDeadlineSeconds", "spec.keep"} {
		if reference.Whole || !strings.Contains(fields, path) {
			t.Errorf("read %s (whole: %t), want %s", fields, reference.Whole, path)
		}
	}
	if len(snapshot.Concerning(job)) != 1 || len(builtin(t).Snapshot().Concerning(job)) != 0 {
		t.Error("not the policies that concern Jobs")
	}
}

func TestRuntimeKindWithoutProfile(t *testing.T) {
	known := builtin(t)
	user := parsed[v1alpha1.KindProfile](t, `{metadata: {name: runs}, spec: {kind: {group: x.dev, version: v1, kind: Run, resource: runs},
  state: {finished: "false", finishTime: "null", outcome: "'Failed'"},
  runtime: {reference: {name: spec.plan, defaultKind: Plan}, kinds: [{group: x.dev, version: v1, kind: Plan, resource: plans, scope: Cluster, ttl: [spec.keep]}]}}}`)
	if errs := known.SetProfile(user); len(errs) > 0 {
		t.Fatal(errs)
	}
	plan := known.Snapshot().Profiles.For(schema.GroupVersionKind{Group: "x.dev", Version: "v1", Kind: "Plan"})
	if plan.RuntimeOf != "Run" || !plan.ClusterScoped || plan.TTL.String() != "spec.keep" {
		t.Errorf("its profile is %+v", plan)
	}
}

// trainJobs is what a CustomResourceDefinition of TrainJob serves; v2.1.0 has no
// activeDeadlineSeconds.
func trainJobs(fields ...string) *expression.Definition {
	properties := map[string]any{}
	for _, field := range fields {
		properties[field] = map[string]any{"type": "integer"}
	}
	out := expression.DefinitionOf(map[string]any{
		"spec": map[string]any{"group": "trainer.kubeflow.org", "names": map[string]any{"kind": "TrainJob", "plural": "trainjobs"}, "scope": "Namespaced",
			"versions": []any{map[string]any{"name": "v1alpha1", "served": true, "subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}}}}}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
	return &out
}

// A default in a field that the installed version lacks would be dropped: it becomes an annotation
// there, and no restart is needed when the version changes.
func TestProfilesFollowTheInstalledVersion(t *testing.T) {
	known := builtin(t)
	kind := schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainJob"}
	expect := func(when string, native bool) {
		t.Helper()
		profile := known.Snapshot().Profiles[kind]
		if (profile.Deadline != nil) != native || !profile.AnnotatedDeadline {
			t.Errorf("%s: deadline field %s, annotation %t; want native %t", when, profile.Deadline, profile.AnnotatedDeadline, native)
		}
	}
	expect("nothing known", true)
	known.SetDefinition("trainjobs.trainer.kubeflow.org", trainJobs("suspend"))
	expect("v2.1.0", false)
	if with := known.Snapshot().With([]*expression.Policy{{Name: "a"}}, nil).Profiles[kind]; with.Deadline != nil {
		t.Error("with another policy the profile is no longer that of the installed version")
	}
	known.SetDefinition("trainjobs.trainer.kubeflow.org", trainJobs("suspend", "activeDeadlineSeconds"))
	expect("v2.2.0", true)
	known.SetDefinition("trainjobs.trainer.kubeflow.org", trainJobs("suspend"))
	known.SetDefinition("trainjobs.trainer.kubeflow.org", nil)
	expect("not installed", true)
	before := known.Snapshot()
	other := trainJobs()
	other.Kind.Kind = "Other"
	known.SetDefinition("others.trainer.kubeflow.org", other)
	if known.Snapshot() != before {
		t.Error("a kind without a profile changed something")
	}
}

// Objects that a policy of a newer version may match are left as they are: what the policy says
// beyond this version's knowledge may keep them (S6).
func TestPolicyOfANewerVersion(t *testing.T) {
	for spec, want := range map[string]struct {
		failures int
		held     bool
	}{
		`{match: {kinds: [{group: batch, kind: Job}]}, defaults: {ttl: {value: 2h}}}`:                         {0, false},
		`{match: {objectSelector: {matchLabels: {any.example.com/x: "y"}}}, defaults: {ttl: {value: 2h}}}`:    {0, false},
		`{match: {kinds: [{group: batch, kind: Job}], idleFor: 2h}, defaults: {ttl: {value: 2h}}}`:            {1, true},
		`{match: {kinds: [{group: batch, kind: Job, version: v2}]}, defaults: {ttl: {value: 2h}}}`:            {1, true},
		`{match: {kinds: [{group: batch, kind: Job}]}, mode: Rehearse, defaults: {ttl: {value: 2h}}}`:         {1, true},
		`{match: {kinds: [{group: batch, kind: Job}]}, defaults: {ttl: {value: 2h, unless: {failed: true}}}}`: {1, true},
		`{match: {kinds: [{group: batch, kind: CronJob}], idleFor: 2h}, defaults: {ttl: {value: 2h}}}`:        {0, true},
	} {
		known := builtin(t)
		object, compiled, errs := known.Compiler().ReadPolicy(*parsed[map[string]any](t, `{metadata: {name: gpu}, spec: `+spec+`}`))
		known.PutPolicy(object.Name, compiled)
		snapshot := known.Snapshot()
		read := *parsed[map[string]any](t, `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ml}}`)
		facts := policy.FactsOfObject(policy.JobProfile, read)
		scope, err := platform.ContextOf(t.Context(), source{snapshot, resolution.ParseNamespace("ml", nil, nil), nil}, platform.Whole(facts, read))
		must(t, err)
		if len(scope.Failures) != want.failures || len(errs) > 0 != want.held {
			t.Errorf("%s: failures %v, errors %v", spec, scope.Failures, errs)
		}
	}
}

// A KindProfile is another one as soon as an older CustomResourceDefinition has dropped one of its
// fields, which changes no generation.
func TestProfileOfANewerVersion(t *testing.T) {
	const stored = `{metadata: {name: runs, uid: u}, spec: {kind: {group: ml.example.com, kind: Run}}%s}`
	compiler := builtin(t).Compiler()
	_, plain, errs := compiler.ReadProfile(*parsed[map[string]any](t, fmt.Sprintf(stored, "")))
	_, held, heldErrs := compiler.ReadProfile(*parsed[map[string]any](t, fmt.Sprintf(stored, `, status: {conditions: [{type: Requires, status: "True", message: "v99.0.0: spec.references"}]}`)))
	if len(heldErrs) != len(errs)+1 || plain.Same(held) || !held.Same(held) {
		t.Errorf("%v and %v", errs, heldErrs)
	}
	if _, err := held.State(t.Context(), map[string]any{}); err == nil {
		t.Error("the state of its objects is known")
	}
}

var must = builders.Must
