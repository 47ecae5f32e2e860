package expression_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

func lifecyclePolicy(t fataler, name, spec string) *v1alpha1.LifecyclePolicy {
	t.Helper()
	out := &v1alpha1.LifecyclePolicy{}
	must(t, yaml.UnmarshalStrict([]byte(spec), &out.Spec))
	out.Name = name
	return out
}

func compilePolicy(t testing.TB, spec string) *expression.Policy {
	t.Helper()
	compiled, errs := expression.NewCompiler(16).Policy(lifecyclePolicy(t, "platform", spec))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return compiled
}

// scene is a Job labelled team: a in namespace ci labelled env: test.
func scene() (*policy.Facts, *expression.Variables) {
	object := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "ci", "labels": map[string]any{"team": "a"}}, "spec": map[string]any{"parallelism": int64(4)}}
	return policy.FactsOfObject(policy.JobProfile, object), &expression.Variables{
		Object:    object,
		Namespace: map[string]any{"metadata": map[string]any{"name": "ci", "labels": map[string]any{"env": "test", "ttl": "2h"}}},
	}
}

func TestPolicyMatches(t *testing.T) {
	for name, c := range map[string]struct {
		match string
		want  string
	}{
		"everything":          {`{}`, "yes"},
		"kind":                {`{kinds: [{group: batch, kind: Job}]}`, "yes"},
		"any kind of group":   {`{kinds: [{group: batch, kind: "*"}]}`, "yes"},
		"other kind":          {`{kinds: [{kind: Pod}, {group: batch, kind: CronJob}]}`, "no"},
		"same kind elsewhere": {`{kinds: [{group: batch.volcano.sh, kind: Job}]}`, "no"},
		"object label":        {`{objectSelector: {matchLabels: {team: a}}}`, "yes"},
		"namespace label":     {`{namespaceSelector: {matchExpressions: [{key: env, operator: In, values: [test, dev]}]}}`, "yes"},
		"condition false":     {`{matchConditions: [{name: wide, expression: "object.spec.parallelism > 9"}]}`, "no"},
		"namespace in CEL":    {`{matchConditions: [{name: env, expression: "namespaceObject.metadata.labels.env == 'test'"}]}`, "yes"},
		"no runtime":          {`{matchConditions: [{name: rt, expression: "runtime == null"}]}`, "yes"},
		"fails":               {`{matchConditions: [{name: bad, expression: "object.spec.nope > 3"}]}`, `error policy "platform": spec.match.matchConditions[0] (bad): evaluating: no such key: nope`},
		"fails, other false":  {`{matchConditions: [{name: bad, expression: "object.spec.nope > 3"}, {name: no, expression: "false"}]}`, "no"},
		"wrong result": {`{matchConditions: [{name: bad, expression: "object.spec.parallelism"}]}`,
			`error policy "platform": spec.match.matchConditions[0] (bad): the result is int "4", and must be true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			facts, variables := scene()
			compiled := compilePolicy(t, "defaults: {ttl: {value: 1d}}\nmatch: "+c.match)
			platformPolicy, matched, errs := compiled.For(context.Background(), facts, variables)
			got := "no"
			switch {
			case len(errs) > 0:
				got = "error " + errs[0].Error()
				if !matched || platformPolicy.TTL.All.Err == nil {
					t.Errorf("an error let the object go: %+v (S6)", platformPolicy)
				}
			case matched:
				got = "yes"
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestNamespaceSelectorWithoutNamespace(t *testing.T) {
	compiled := compilePolicy(t, `{defaults: {ttl: {value: 1d}}, match: {namespaceSelector: {matchLabels: {env: test}}}}`)
	facts, variables := scene()
	variables.Namespace = nil
	if platformPolicy, matched, errs := compiled.For(context.Background(), facts, variables); !matched || len(errs) != 1 || platformPolicy.TTL.All.Err == nil {
		t.Errorf("a namespace that is not known: %+v, %v, %v", platformPolicy, matched, errs)
	}
	cluster := *facts
	cluster.Namespace = ""
	if _, matched, errs := compiled.For(context.Background(), &cluster, variables); matched || len(errs) > 0 {
		t.Errorf("a cluster-scoped object: %v, %v", matched, errs)
	}
}

func TestPolicyDefaults(t *testing.T) {
	compiled := compilePolicy(t, `
defaults:
  ttl: {expression: "duration(namespaceObject.metadata.labels.ttl)"}
  ttlFailed: {value: never}
  ttlSucceeded: {expression: "object.?metadata.?annotations[?'x']"}
  deadline: {expression: "object.spec.parallelism * 3600"}
  ttlLabel: {value: 7d}
bounds: {minTTL: 1m, maxTTL: 30d, minTTLLabel: 2m, maxTTLLabel: 60d, maxDeadline: 2d, latestDate: "2026-12-31"}
warnBelow: 5m
priority: 7
backfill: true`)
	facts, variables := scene()
	platformPolicy, matched, errs := compiled.For(context.Background(), facts, variables)
	if !matched || len(errs) > 0 {
		t.Fatal(matched, errs)
	}
	for name, c := range map[string]struct {
		setting *lifetime.Setting
		want    string
	}{
		"ttl":         {platformPolicy.TTL.All, "2h"},
		"failed":      {platformPolicy.TTL.Failed, "never"},
		"deadline":    {platformPolicy.Deadline, "4h"},
		"maxDeadline": {platformPolicy.Bounds.Deadline.Max, "2d"},
		"maxTTL":      {platformPolicy.Bounds.TTL.Max, "30d"},
		"minTTLLabel": {platformPolicy.Bounds.Label.Min, "2m"},
		"maxTTLLabel": {platformPolicy.Bounds.Label.Max, "60d"},
	} {
		if c.setting == nil || c.setting.Err != nil || c.setting.TTL.String() != c.want || c.setting.Source.String() != "policy/platform" {
			t.Errorf("%s: %+v, want %s", name, c.setting, c.want)
		}
	}
	if platformPolicy.TTL.Succeeded != nil {
		t.Errorf("null says %+v, want nothing", platformPolicy.TTL.Succeeded)
	}
	if platformPolicy.TTL.All.Path != "spec.defaults.ttl.expression" || platformPolicy.TTL.Failed.Path != "spec.defaults.ttlFailed.value" {
		t.Errorf("paths %s, %s", platformPolicy.TTL.All.Path, platformPolicy.TTL.Failed.Path)
	}
	if label := compiled.Label(context.Background(), variables); label == nil || label.Text != "7d" {
		t.Errorf("label %+v", label)
	}
	if want := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC); !compiled.LatestDate.Equal(want) || compiled.WarnBelow != 5*time.Minute ||
		compiled.Priority != 7 || !platformPolicy.Backfill || compiled.Mode != resolution.ModeEnforce {
		t.Errorf("compiled %+v, want latestDate, warnBelow, priority, backfill and mode as in the spec", compiled)
	}
}

// A default that cannot be computed keeps the object: judged by the whole of policy, not by this
// package alone.
func TestFailedDefaultKeepsTheObject(t *testing.T) {
	compiled := compilePolicy(t, `{defaults: {ttl: {expression: "object.spec.nope"}}, backfill: true}`)
	low := compilePolicy(t, `{defaults: {ttl: {value: 0s}}, backfill: true, priority: -1}`)
	facts, variables := scene()
	platformPolicies, errs := expression.Matching(context.Background(), []*expression.Policy{compiled, low}, facts, variables)
	// It has spoken, whatever it said: the lower one is not asked.
	if len(platformPolicies) != 1 || len(errs) != 1 || errs[0].Error() != `policy "platform": spec.defaults.ttl.expression: evaluating: no such key: nope` {
		t.Fatal(platformPolicies, errs)
	}
	done := *facts
	done.Finished, done.Outcome, done.FinishTime = true, lifetime.Succeeded, epoch
	scope := &resolution.Scope{Policies: platformPolicies}
	effective := resolution.Resolve(&done, scope)
	verdict := judging.Judge(&done, &effective, epoch.Add(1000*time.Hour))
	if verdict.Action != policy.Keep || verdict.Err == nil {
		t.Errorf("%+v: want it kept and reported (S6)", verdict)
	}
	if filled := resolution.Defaults(facts, &effective, scope); len(filled) > 0 {
		t.Errorf("admission filled in %v", filled)
	}
}

// A policy whose match cannot be evaluated applies for its bounds, and keeps what lies within them:
// it may not match. A condition that is false excludes the object all the same.
func TestFailedMatchBoundsAndKeeps(t *testing.T) {
	judged := func(conditions string, ttl time.Duration, namespace *resolution.NamespacePolicy) (policy.Verdict, error) {
		t.Helper()
		compiled := compilePolicy(t, "match: {matchConditions: ["+conditions+"]}\nbounds: {minTTL: 1h, maxTTL: 2h}")
		facts, variables := scene()
		platformPolicies, _ := expression.Matching(context.Background(), []*expression.Policy{compiled}, facts, variables)
		own := *facts
		own.NativeTTL = lifetime.NativeField{Set: namespace == nil, Seconds: int64(ttl / time.Second)}
		own.Finished, own.Outcome, own.FinishTime, own.Created = true, lifetime.Succeeded, epoch, epoch
		scope := &resolution.Scope{Policies: platformPolicies, Namespace: namespace}
		effective := resolution.Resolve(&own, scope)
		return judging.Judge(&own, &effective, epoch.Add(1000*time.Hour)), scope.Bounds(resolution.EnforcedBounds).CheckTTL(lifetime.TTL{After: ttl})
	}
	const fails = `{name: bad, expression: "object.metadata.labels['nope'] != 'exempt'"}`
	for _, ttl := range []time.Duration{0, 5 * time.Second, 3 * time.Hour} {
		if verdict, err := judged(fails, ttl, nil); verdict.Action != policy.Keep || !lifetime.Violated(err) {
			t.Errorf("%s: %v, %v: want it kept and refused", ttl, verdict.Action, err)
		}
	}
	var unreadable *lifetime.UnreadableBoundError
	if verdict, err := judged(fails, 90*time.Minute, nil); verdict.Action != policy.Keep || !asUnreadable(err, &unreadable) {
		t.Errorf("within the bounds: %v, %v: want it kept, and an unreadable bound, which rules do not refuse by", verdict.Action, err)
	}
	if verdict, err := judged(fails+`, {name: no, expression: "false"}`, 0, nil); verdict.Action != policy.Delete || err != nil {
		t.Errorf("excluded: %v, %v", verdict.Action, err)
	}
	// A default that the bounds would shorten is not shortened: it is not used.
	defaults := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationDefaultTTL: "7d"}, nil)
	defaults.Since = epoch.Add(-time.Hour)
	if verdict, _ := judged(fails, 0, defaults); verdict.Action != policy.Keep || verdict.Err == nil {
		t.Errorf("a default: %v, %v: want it kept and reported", verdict.Action, verdict.Err)
	}
}

func asUnreadable(err error, into **lifetime.UnreadableBoundError) bool {
	found, ok := err.(*lifetime.UnreadableBoundError)
	*into = found
	return ok
}

func TestPolicyErrorsNameFieldLineAndColumn(t *testing.T) {
	object := lifecyclePolicy(t, "platform", `
match:
  namespaceSelector: {matchExpressions: [{key: env, operator: Near}]}
  matchConditions: [{name: a, expression: "objekt.spec"}]
defaults:
  ttl: {expression: "object.spec +"}
  ttlFailed: {value: soon}
  ttlSucceeded: {}
  deadline: {value: 0s}
  ttlLabel: {value: 2y}
bounds: {minTTL: 2h, maxTTL: 1h, latestDate: tomorrow}
warnBelow: x`)
	object.Generation = 3
	compiled, errs := expression.NewCompiler(16).Policy(object)
	condition := expression.Ready(object.Generation, errs, nil)
	if condition.Status != "False" || condition.Reason != v1alpha1.ReasonInvalidExpression || condition.ObservedGeneration != 3 {
		t.Errorf("condition %+v, want False, InvalidExpression, for generation 3", condition)
	}
	for _, want := range []string{
		`spec.match.namespaceSelector: "Near" is not a valid label selector operator`,
		`spec.match.matchConditions[0].expression: line 1, column 1: undeclared reference to 'objekt'`,
		`spec.defaults.ttl.expression: line 1, column 14: Syntax error`,
		`spec.defaults.ttlFailed.value: "soon" is not a duration`,
		`spec.defaults.ttlSucceeded: set exactly one of value and expression`,
		`spec.defaults.deadline.value: 0s is below 1: a deadline is 1s or more`,
		`spec.defaults.ttlLabel.value: "2y" is neither a duration nor a date`,
		`spec.bounds.minTTL: 2h is above maxTTL 1h: lower it, or raise the other`,
		`spec.bounds.latestDate: use a date such as 2026-12-31`,
		`spec.warnBelow: "x" is not a duration`,
	} {
		if !strings.Contains(condition.Message, want) {
			t.Errorf("no %q in\n%s", want, strings.ReplaceAll(condition.Message, "; ", "\n"))
		}
	}
	facts, variables := scene()
	platformPolicy, matched, failed := compiled.For(context.Background(), facts, variables)
	if !matched || len(failed) == 0 || platformPolicy.TTL.All == nil || platformPolicy.TTL.All.Err == nil {
		t.Errorf("a policy that cannot be used let the object go: %+v (S6)", platformPolicy)
	}
}

func TestReadyReportsEvaluation(t *testing.T) {
	if condition := expression.Ready(1, nil, nil); condition.Status != "True" || condition.Reason != v1alpha1.ReasonAccepted {
		t.Errorf("condition %+v, want True, Accepted", condition)
	}
	_, variables := scene()
	long := compilePolicy(t, `{defaults: {ttlLabel: {expression: "object.nope"}}}`).Label(context.Background(), variables)
	if condition := expression.Ready(1, nil, []error{long.Err}); condition.Status != "False" || condition.Reason != v1alpha1.ReasonEvaluationFailed {
		t.Errorf("condition %+v, want False, EvaluationFailed", condition)
	}
}

func TestSortAndConcerns(t *testing.T) {
	a, b, c := &expression.Policy{Name: "a"}, &expression.Policy{Name: "b", Priority: 5}, &expression.Policy{Name: "c", Priority: 5}
	list := []*expression.Policy{a, c, b}
	expression.Sort(list)
	if list[0] != b || list[1] != c || list[2] != a {
		t.Error("want the highest priority first, equals by name")
	}
	compiled := compilePolicy(t, `{warnBelow: 1m, match: {kinds: [{group: batch, kind: Job}]}}`)
	if !compiled.Concerns(schema.GroupKind{Group: "batch", Kind: "Job"}) || compiled.Concerns(schema.GroupKind{Kind: "Pod"}) {
		t.Error("Concerns")
	}
}

func TestStampPolicy(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	object := lifecyclePolicy(t, "platform", `{defaults: {ttl: {value: 1d}}}`)
	first := expression.StampPolicy(object, now)
	object.Status.Defaults = first
	later := now.Add(time.Hour)
	if got := expression.StampPolicy(object, later); *got != *first {
		t.Errorf("unchanged defaults were stamped again: %v, then %v", first, got)
	}
	if compiled, _ := expression.NewCompiler(4).Policy(object); !compiled.Since.Equal(now) {
		t.Errorf("since %v, want %v", compiled.Since, now)
	}
	if got := expression.StampPolicy(object, now.Add(-time.Hour)); *got == *first {
		t.Error("a stamp in the future was kept")
	}
	for name, change := range map[string]func(*v1alpha1.LifecyclePolicySpec){
		"default": func(s *v1alpha1.LifecyclePolicySpec) { *s.Defaults.TTL.Value = "2d" },
		"match":   func(s *v1alpha1.LifecyclePolicySpec) { s.Match.Kinds = []v1alpha1.GroupKind{{Kind: "Pod"}} },
		"bounds": func(s *v1alpha1.LifecyclePolicySpec) {
			s.Bounds = &v1alpha1.Bounds{MaxTTL: ptr(v1alpha1.Duration("1h"))}
		},
		"priority": func(s *v1alpha1.LifecyclePolicySpec) { s.Priority++ },
		"dry-run":  func(s *v1alpha1.LifecyclePolicySpec) { s.Mode = v1alpha1.PolicyDryRun },
	} {
		changed := object.DeepCopy()
		change(&changed.Spec)
		if got := expression.StampPolicy(changed, later); *got == *first {
			t.Errorf("%s changed and the stamp did not", name)
		}
		if compiled, _ := expression.NewCompiler(4).Policy(changed); !compiled.Since.IsZero() {
			t.Errorf("%s changed and the old stamp holds (S6)", name)
		}
	}
	// Someone else has written the status.
	for _, created := range []time.Time{later, later.Add(time.Second)} {
		forged := object.DeepCopy()
		forged.CreationTimestamp = metav1.NewTime(created)
		if compiled, _ := expression.NewCompiler(4).Policy(forged); !compiled.Since.Equal(created) {
			t.Errorf("since %v, before the policy was created at %v", compiled.Since, created)
		}
		forged.Status.Defaults = expression.StampPolicy(forged, later)
		if got := forged.Status.Defaults.SinceTime; !got.Time.Equal(created) || *expression.StampPolicy(forged, later) != *forged.Status.Defaults {
			t.Errorf("stamped with %v, want %v", got, created)
		}
	}
	changed := object.DeepCopy()
	changed.Spec.Mode, changed.Spec.Backfill = v1alpha1.PolicyWarn, true
	if got := expression.StampPolicy(changed, later); *got != *first {
		t.Error("what decides no default changed the stamp")
	}
	changed.Spec.Defaults = nil
	if got := expression.StampPolicy(changed, later); got != nil {
		t.Errorf("a policy without defaults got the stamp %v", got)
	}
}

func ptr[T any](value T) *T { return &value }

// fataler is a test, or an attempt of a property test.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// A TTL label for all kinds is for those that finish; of the others it is given to those that a
// policy names, and to none that is never written into. Which other policies there are does not
// matter: they may have the object sent to admission.
func TestWhoIsGivenATTLLabel(t *testing.T) {
	for name, c := range map[string]struct {
		profile *policy.Profile
		match   string
		want    string
	}{
		"a Job, every kind":                      {policy.JobProfile, `{}`, "7d"},
		"a Job, any kind of its group":           {policy.JobProfile, `{kinds: [{group: batch, kind: "*"}]}`, "7d"},
		"a Deployment, every kind":               {policy.DeploymentProfile, `{}`, ""},
		"a Deployment, any kind of its group":    {policy.DeploymentProfile, `{kinds: [{group: apps, kind: "*"}]}`, ""},
		"a Deployment that is named":             {policy.DeploymentProfile, `{kinds: [{group: batch, kind: Job}, {group: apps, kind: Deployment}]}`, "7d"},
		"a Deployment, it cannot be told":        {policy.DeploymentProfile, `{matchConditions: [{name: a, expression: "object.nothing"}]}`, ""},
		"a named one, it cannot be told":         {policy.DeploymentProfile, `{kinds: [{group: apps, kind: Deployment}], matchConditions: [{name: a, expression: "object.nothing"}]}`, "error"},
		"a CronJob that is named":                {policy.CronJobProfile, `{kinds: [{group: batch, kind: CronJob}]}`, ""},
		"a ReplicaSet that is named":             {policy.ReplicaSetProfile, `{kinds: [{group: apps, kind: ReplicaSet}]}`, ""},
		"a kind without a profile that is named": {policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}), `{kinds: [{kind: ConfigMap}]}`, "7d"},
		"a kind without a profile, every kind":   {policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}), `{}`, ""},
		"a kind without a profile, wildcards":    {policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}), `{kinds: [{group: "*", kind: "*"}, {kind: "*"}, {group: "*", kind: ConfigMap}]}`, ""},
		"a Namespace that is named":              {policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}), `{kinds: [{kind: Namespace}]}`, ""},
		"a kind of Curfew's that is named":       {policy.Profiles{}.For(schema.GroupVersionKind{Group: wellknown.Group, Version: "v1alpha1", Kind: "LifecyclePolicy"}), `{kinds: [{group: curfew.dev, kind: LifecyclePolicy}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compilePolicy(t, "defaults: {ttlLabel: {value: 7d}}\nmatch: "+c.match)
			object := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "ci"}}
			platformPolicy, matched, _ := compiled.For(context.Background(), policy.FactsOfObject(c.profile, object), &expression.Variables{Object: object})
			got := ""
			if matched && platformPolicy.Label != nil {
				if got = platformPolicy.Label.Text; platformPolicy.Label.Err != nil {
					got = "error"
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// must ends the test at an error.
func must(t fataler, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
