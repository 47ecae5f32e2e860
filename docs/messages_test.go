package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	"curfew.dev/curfew/policy/schedule"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

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

// linted is what lint says about manifests.
func linted(t *testing.T, manifests string, schemas *lint.Schemas) []*lint.Result {
	t.Helper()
	documents, unreadable := lint.Read(lint.Input{Data: []byte(manifests)}, lint.Limits{})
	if len(unreadable) > 0 {
		t.Fatalf("%v in\n%s", unreadable, manifests)
	}
	results, err := lint.Lint(t.Context(), documents, lint.Options{Source: platform.Offline{Platform: builtinPlatform(t)}, Schemas: schemas, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// spoken is all that admission says about the manifests in testdata, each file alone, and the
// changes.
func spoken(t *testing.T) []string {
	t.Helper()
	var out []string
	decisions := ownObjects(t)
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		manifests, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range linted(t, string(manifests), nil) {
			for _, filled := range result.Defaults {
				out = append(out, filled.String())
			}
			decision := &rules.Decision{}
			for _, finding := range result.Findings {
				decision.Findings = append(decision.Findings, finding.Finding)
			}
			decisions = append(decisions, decision)
		}
	}
	for _, request := range append(changes(), trainings()...) {
		decision := rules.Review(request)
		if request.ByController(builtinPlatform(t).Profiles) {
			request.AdmitChild(decision, nil)
		}
		decisions = append(decisions, decision)
	}
	for _, messages := range refusals(t) {
		out = append(out, messages...)
	}
	for _, decision := range decisions {
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
	weekly, err := schedule.Parse("17 5 * * sat", "")
	if err != nil {
		t.Fatal(err)
	}
	rare := approved("")
	rare.Schedule, rare.MinUnused, rare.Spec.MinUnused = weekly, 21*24*time.Hour, new(v1alpha1.Duration("21d"))
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
		rules.ReviewCleanup(&rules.CleanupRequest{Policy: rare}),
	}
}

// warned is how kubectl begins a line of Curfew's.
const warned = "Warning: curfew: "

var block = regexp.MustCompile("(?ms)^```$\n(.*?)^```$")

// TestMessages: what the pages quote is what admission says, word by word. An ellipsis stands for
// the rest.
func TestMessages(t *testing.T) {
	var quoted []string
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
	messages := spoken(t)
	for _, line := range quoted {
		begin, _, cut := strings.Cut(strings.TrimPrefix(line, warned), "…")
		if !slices.ContainsFunc(messages, func(message string) bool {
			return message == begin || cut && strings.HasPrefix(message, begin)
		}) {
			t.Errorf("a page quotes what admission does not say:\n%s", line)
		}
	}
	if t.Failed() {
		t.Logf("it says:\n%s", strings.Join(messages, "\n"))
	}
}
