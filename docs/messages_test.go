package docs_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// manifests give every message that the reference quotes, apart from those about a change or about
// who may delete.
const manifests = `
{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/default-ttl: 1d, curfew.dev/max-ttl: 7d}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: experiments, annotations: {curfew.dev/default-ttl-succeeded: 10m, curfew.dev/default-ttl-failed: 3d}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: keep, annotations: {curfew.dev/default-deadline: 2h}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: dry, annotations: {curfew.dev/default-ttl: 5s, curfew.dev/max-ttl: 1d, curfew.dev/mode: dry-run}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: soft, annotations: {curfew.dev/max-ttl: 1d, curfew.dev/mode: warn}}}
---
{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: trial}, spec: {match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: tried}}}, mode: DryRun, bounds: {maxTTL: 1d}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tried}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: b, namespace: tried}, spec: {ttlSecondsAfterFinished: 864000}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: late, annotations: {curfew.dev/default-ttl: 1y}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: experiments}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: keep}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: dry}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: late}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: b, namespace: ci}, spec: {ttlSecondsAfterFinished: 864000}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: b, namespace: soft}, spec: {ttlSecondsAfterFinished: 864000}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: b, namespace: keep}, spec: {ttlSecondsAfterFinished: 15}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: c, namespace: keep, annotations: {curfew.dev/ttl-after-finished: 1w1x, curfew.dev/protect: "yes", curfew.dev/active-deadline: 1h}}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: d, namespace: keep, annotations: {curfew.dev/ttl-after-finished: never}}, spec: {ttlSecondsAfterFinished: 86400}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: e, namespace: ci}, spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 5m}}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: f, namespace: ci}, spec: {jobTemplate: {spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 5m}}}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: g, namespace: keep, annotations: {curfew.dev/ttl-after-finished: 5m}}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: h, namespace: keep, annotations: {helm.sh/hook: pre-install}}, spec: {ttlSecondsAfterFinished: 600}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: i, namespace: keep, annotations: {argocd.argoproj.io/tracking-id: x}}, spec: {ttlSecondsAfterFinished: 600}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: keep, annotations: {curfew.dev/ttl: 1d}}, spec: {}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: k, namespace: keep, labels: {curfew.dev/ttl: 2026-12-24}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: m, namespace: keep, annotations: {curfew.dev/ttl-after-finished: 1H}}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: n, namespace: keep, annotations: {curfew.dev/ttl-after-finished: "2026-12-24"}}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: o, namespace: keep, annotations: {curfew.dev/ttl-after-finished: 0.3s}}, spec: {}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: p, namespace: keep, annotations: {curfew.dev/ttl-after-finished: 1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s}}, spec: {}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: q, namespace: keep, labels: {curfew.dev/ttl: soon}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: r, namespace: keep, labels: {curfew.dev/ttl: 30s}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: l, namespace: keep, labels: {curfew.dev/ttl-after-finished: 1d}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: dry, labels: {curfew.dev/ttl: 2026-12-24}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: n, namespace: keep, labels: {curfew.dev/ttl: 2026-12-25}, annotations: {curfew.dev/protect: "true"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: s, namespace: keep, labels: {curfew.dev/ttl: 1d}, annotations: {curfew.dev/refreshed-at: yesterday}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: t, namespace: keep, labels: {curfew.dev/ttl: 1d}, annotations: {curfew.dev/refreshed-at: "2027-01-01T00:00:00Z"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: u, namespace: keep, annotations: {curfew.dev/refreshed-at: "2026-12-24T11:00:00Z"}}}
---
{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: v, namespace: keep, labels: {curfew.dev/ttl: 1d}}}
---
{apiVersion: velero.io/v1, kind: Backup, metadata: {name: w, namespace: keep, labels: {curfew.dev/ttl: 1d}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: sh.helm.release.v1.web.v1, namespace: keep, labels: {curfew.dev/ttl: 1d, owner: helm}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: o, namespace: keep}, spec: {jobTemplate: {metadata: {labels: {curfew.dev/ttl: 2026-12-24}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: p, namespace: keep}, spec: {template: {metadata: {labels: {curfew.dev/ttl: 1d}}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: q, namespace: keep}, spec: {template: {metadata: {annotations: {curfew.dev/active-deadline: 1h}}}}}
---
{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: r, namespace: keep}, spec: {runtimeRef: {name: torch}, labels: {curfew.dev/ttl: 1d}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: misspelt, annotations: {curfew.dev/defualt-ttl: 1d}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: s, namespace: ci, annotations: {curfew.dev/default-ttl: 1d}}}
---
{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: tune, namespace: keep, annotations: {curfew.dev/ttl-after-finished: 1d},
  ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: tune, uid: u, controller: true}]}}
`

// contradiction is a namespace that would get in the way of the others.
const contradiction = `{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/min-ttl: 8d, curfew.dev/max-ttl: 7d, curfew.dev/mode: warm}}}`

// labelled is an object that a policy gives a TTL label.
const labelled = `{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: previews-7-days},
  spec: {match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {value: 7d}}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: scratch, namespace: pr-42}}`

// unfit is a LifecyclePolicy with an expression that does not compile, and a bound that leaves
// nothing of a namespace's.
const unfit = `{apiVersion: v1, kind: Namespace, metadata: {name: prod, annotations: {curfew.dev/min-ttl: 30d}}}
---
{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: platform},
  spec: {defaults: {ttl: {expression: objekt.spec.ttl}}, bounds: {maxTTL: 7d}}}`

// now is when the examples of the pages take place.
var now = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

// builtinPlatform is what comes with Curfew.
func builtinPlatform(t *testing.T) *platform.Snapshot {
	t.Helper()
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	out, err := platform.New(builtin)
	if err != nil {
		t.Fatal(err)
	}
	return out.Snapshot()
}

// spoken is all that admission says about the manifests and the changes.
func spoken(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, source := range []string{manifests, contradiction, labelled, unfit} {
		documents, unreadable := lint.Read(lint.Input{Data: []byte(source)}, lint.Limits{})
		if len(unreadable) > 0 {
			t.Fatal(unreadable)
		}
		results, err := lint.Lint(t.Context(), documents, lint.Options{Source: platform.Offline{Platform: builtinPlatform(t)}, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			for _, filled := range result.Defaults {
				out = append(out, filled.String())
			}
			decision := rules.Decision{}
			for _, finding := range result.Findings {
				out = append(out, finding.Finding.String())
				decision.Findings = append(decision.Findings, finding.Finding)
			}
			out = append(out, decision.Help())
		}
	}
	for _, messages := range refusals(t) {
		out = append(out, messages...)
	}
	for _, decision := range ownObjects(t) {
		for _, finding := range decision.Findings {
			out = append(out, finding.String())
		}
		out = append(out, decision.Help())
	}
	for _, request := range append(changes(), trainings()...) {
		decision := rules.Review(request)
		if request.ByController(builtinPlatform(t).Profiles) {
			request.AdmitChild(decision, nil)
		}
		for _, finding := range decision.Findings {
			out = append(out, finding.String())
		}
		out = append(out, decision.Help())
	}
	return out
}

// changes are requests that no manifest alone can show.
func changes() []*rules.Request {
	done := map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True", "lastTransitionTime": "2026-12-24T10:00:00Z"}}}
	with := map[string]any{"metadata": map[string]any{"namespace": "ci"}, "spec": map[string]any{"ttlSecondsAfterFinished": int64(3600)}, "status": done}
	held := map[string]any{"spec": with["spec"], "status": done, "metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationProtect: "true"}}}
	due := resolution.Resolve(policy.FactsOfObject(policy.JobProfile, with), &resolution.Scope{})
	without := map[string]any{"spec": map[string]any{}}
	forged := map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTLSource: "policy/x"}}}
	child := map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{wellknown.LabelTTL: "1d"}}}},
		"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}}}}
	demo := func(labels map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "demo", "namespace": "ci", "creationTimestamp": "2026-12-21T00:00:00Z", "labels": labels}}
	}
	configMap := policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	expired := func(options rules.Options) *rules.Request {
		old, object := demo(nil), demo(map[string]any{wellknown.LabelTTL: "3d"})
		return &rules.Request{Operation: rules.Update, Object: object, Facts: policy.FactsOfObject(configMap, object), Scope: &resolution.Scope{},
			Old: old, OldFacts: policy.FactsOfObject(configMap, old), Options: options, Now: now}
	}
	replaced := map[string]any{"metadata": map[string]any{"labels": map[string]any{wellknown.LabelTTL: "1d"},
		"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "u", "controller": true}}}}
	bounded := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationMaxTTL: "7d"}, nil)
	return []*rules.Request{
		expired(rules.Options{}), expired(rules.Options{WarnExpiredLabels: true}),
		{Operation: rules.Create, Object: replaced, Facts: policy.FactsOfObject(policy.PodProfile, replaced), Scope: &resolution.Scope{}, Now: now},
		{Operation: rules.Update, Object: without, Facts: policy.FactsOfObject(policy.JobProfile, without),
			Old: with, OldFacts: policy.FactsOfObject(policy.JobProfile, with), Scope: &resolution.Scope{Namespace: bounded}},
		{Operation: rules.Create, Object: with, Facts: policy.FactsOfObject(policy.JobProfile, with), Scope: &resolution.Scope{},
			Access: rules.Access{User: rules.No, Controller: rules.No}},
		{Operation: rules.Update, Object: with, Facts: policy.FactsOfObject(policy.JobProfile, with), Scope: &resolution.Scope{}, Access: rules.Access{User: rules.No},
			Old: held, OldFacts: policy.FactsOfObject(policy.JobProfile, held), Effective: &due},
		{Operation: rules.Create, Object: held, Facts: policy.FactsOfObject(policy.JobProfile, held), Access: rules.Access{Policies: map[string]rules.Answer{"platform": rules.No}},
			Scope: &resolution.Scope{Policies: []*resolution.PlatformPolicy{{Name: "platform", Protect: &lifetime.Setting{}}}}},
		{Operation: rules.Create, Object: forged, Facts: policy.FactsOfObject(policy.JobProfile, forged), Scope: &resolution.Scope{}},
		{Operation: rules.Create, Object: child, Facts: policy.FactsOfObject(policy.ReplicaSetProfile, child), Scope: &resolution.Scope{},
			User: rules.User{Name: "system:serviceaccount:kube-system:deployment-controller"}},
	}
}

// trainings are requests about a TrainJob and its runtime, and one about a LifecyclePolicy that has
// a TTL label.
func trainings() []*rules.Request {
	trainJob := &policy.Profile{Name: "trainjob", ImmutableDeadline: true, AnnotatedDeadline: true, Deadline: fieldpath.MustFieldPath("spec.activeDeadlineSeconds"),
		State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil }}
	runtime := &policy.Profile{Name: "runtime", RuntimeOf: "TrainJob", RuntimeTTLs: []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.ttlSecondsAfterFinished")}}
	trainJob.Kind.Kind, runtime.Kind.Kind = "TrainJob", "TrainingRuntime"
	own := policy.Profiles{}.For(schema.GroupVersionKind{Group: wellknown.Group, Version: "v1alpha1", Kind: "LifecyclePolicy"})
	object := func(deadline int64, annotations map[string]any) map[string]any {
		out := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{}}
		if deadline > 0 {
			out["spec"] = map[string]any{"activeDeadlineSeconds": deadline}
		}
		return out
	}
	create := func(profile *policy.Profile, object map[string]any, uses *resolution.RuntimePolicy) *rules.Request {
		return &rules.Request{Operation: rules.Create, Object: object, Facts: policy.FactsOfObject(profile, object), Scope: &resolution.Scope{Runtime: uses}, Now: now}
	}
	update := func(profile *policy.Profile, old, object map[string]any) *rules.Request {
		request := create(profile, object, nil)
		request.Operation, request.Old, request.OldFacts = rules.Update, old, policy.FactsOfObject(profile, old)
		return request
	}
	day := lifetime.TTLSet{All: &lifetime.Setting{Text: "1d", TTL: lifetime.TTL{After: 24 * time.Hour}}}
	twice := object(3600, map[string]any{wellknown.AnnotationActiveDeadline: "2h"})
	late := object(0, map[string]any{wellknown.AnnotationActiveDeadline: "2h"})
	hour := object(0, map[string]any{wellknown.AnnotationTTL: "1h"})
	before, after := object(0, map[string]any{wellknown.AnnotationTTL: "2d"}), object(0, map[string]any{wellknown.AnnotationTTL: "1d"})
	reaching := create(runtime, object(0, map[string]any{wellknown.AnnotationTTL: "1d", wellknown.AnnotationBackfill: "true"}), nil)
	reaching.Reached = rules.Reached{Known: true, Count: 12}
	return []*rules.Request{
		create(trainJob, twice, nil), update(trainJob, object(0, nil), late), update(trainJob, object(14400, nil), object(28800, nil)),
		create(trainJob, hour, &resolution.RuntimePolicy{Name: "torch", TTL: day}),
		create(trainJob, object(0, nil), &resolution.RuntimePolicy{Name: "torch", Path: "spec.runtimeRef.name", Missing: true}),
		update(runtime, before, after), reaching,
		create(own, map[string]any{"metadata": map[string]any{"labels": map[string]any{wellknown.LabelTTL: "1d"}}}, nil),
	}
}

// ownObjects are decisions about changes of Curfew's policies.
func ownObjects(t *testing.T) []*rules.Decision {
	t.Helper()
	lifecycle := func(mode v1alpha1.PolicyMode) *expression.Policy {
		object := &v1alpha1.LifecyclePolicy{}
		object.Name, object.Spec.Mode = "platform", mode
		value := v1alpha1.TTL("7d")
		object.Spec.Defaults = &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{Value: &value}}
		compiled, errs := expression.NewCompiler(16).Policy(object)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return compiled
	}
	approved := func(approval v1alpha1.Approval) *cleanup.Policy {
		return &cleanup.Policy{Namespace: "ci", Name: "old-config", Account: types.NamespacedName{Namespace: "ci", Name: "janitor"},
			Spec: &v1alpha1.CleanupSpec{Approval: approval}}
	}
	counting := func(name string, selector map[string]string) *tally.Tally {
		object := &v1alpha1.PodTally{}
		object.Namespace, object.Name = "ci", name
		object.Spec.Selector.MatchLabels = selector
		compiled, errs := tally.Compile(object)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return compiled
	}
	off := rules.Options{Controller: judging.Surroundings{Off: []policy.Trigger{policy.TriggerTally}}}
	wide, narrow := map[string]string{"app": "build"}, map[string]string{"app": "build", "when": "nightly"}
	var many []*tally.Tally
	for i := range tally.MaxPerNamespace {
		many = append(many, counting(fmt.Sprint("tally-", i), map[string]string{"app": fmt.Sprint(i)}))
	}
	return []*rules.Decision{
		rules.ReviewTally(&rules.TallyRequest{Tally: counting("new", wide), Options: off, ControllerLacks: true,
			Others: []*tally.Tally{counting("builds", wide), counting("nightly", narrow)}}),
		rules.ReviewTally(&rules.TallyRequest{Tally: counting("new", wide), Others: many}),
		rules.ReviewPlatform(&rules.PlatformRequest{OldPolicy: lifecycle(""), Policy: lifecycle("DryRun")}),
		rules.ReviewCleanup(&rules.CleanupRequest{Before: approved(v1alpha1.ApprovalRequired), Policy: approved(""),
			AuthorLacks: []string{"delete configmaps"}, AccountLacks: []string{"delete configmaps"}}),
	}
}

// warned is how kubectl begins a line of Curfew's.
const warned = "Warning: curfew: "

var block = regexp.MustCompile("(?ms)^```$\n(.*?)^```$")

// TestMessages: what the pages quote is what admission says, word by word. An ellipsis stands for
// the rest.
func TestMessages(t *testing.T) {
	_, section, _ := strings.Cut(reference(t), "\n## Admission rules and their messages")
	section, _, _ = strings.Cut(section, "\n## ")
	var quoted []string
	for _, match := range block.FindAllStringSubmatch(section, -1) {
		quoted = append(quoted, strings.Split(strings.TrimSpace(match[1]), "\n")...)
	}
	for _, match := range block.FindAllStringSubmatch(pages(t)["docs/messages.md"], -1) {
		quoted = append(quoted, strings.Split(strings.TrimSpace(match[1]), "\n")...)
	}
	for name, text := range pages(t) {
		if name == "docs/developers.md" || name == "docs/ci.md" {
			continue // TestTutorial compares their output with that of kubectl.
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, warned) {
				quoted = append(quoted, strings.TrimSpace(line))
			}
		}
	}
	if len(quoted) < 20 {
		t.Errorf("only %d messages are quoted", len(quoted))
	}
	said := spoken(t)
	for _, line := range quoted {
		begin, _, cut := strings.Cut(strings.TrimPrefix(line, warned), "…")
		if !slices.ContainsFunc(said, func(message string) bool {
			return message == begin || cut && strings.HasPrefix(message, begin)
		}) {
			t.Errorf("a page quotes what admission does not say:\n%s", line)
		}
	}
	if t.Failed() {
		t.Logf("it says:\n%s", strings.Join(said, "\n"))
	}
}
