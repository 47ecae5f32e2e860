package expression_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// specs are parts of policies; each says something else, cannot be used in some way, or says
// nothing in the end.
var specParts = map[string][]string{
	"match": {
		"", "", `matchConditions: [{name: a, expression: "object.spec.parallelism == 4"}]`, `matchConditions: [{name: a, expression: "object.spec.parallelism > 4"}]`,
		`matchConditions: [{name: a, expression: "object.nothing == 1"}]`, `namespaceSelector: {matchLabels: {env: test}}`, `namespaceSelector: {matchLabels: {env: prod}}`,
	},
	"defaults": {
		"", "ttl: {value: 1h}", "ttl: {value: never}", "ttl: {expression: 'null'}", "ttl: {expression: 'object.nothing'}", "ttlFailed: {value: 2d}", "ttlSucceeded: {expression: 'null'}, ttlFailed: {value: 3d}",
		"deadline: {value: 6h}", "deadline: {expression: 'null'}", "ttlLabel: {value: 7d}", "ttlLabel: {expression: 'null'}", "ttl: {value: 5d}, deadline: {value: 2h}, ttlLabel: {value: 1d}",
	},
	"bounds": {"", "", "", "", "", "", "", "maxTTL: 12h", "minTTL: 2h", "maxTTLLabel: 1d", "minTTLLabel: 2d", "maxDeadline: 1h", "latestDate: '2026-03-02'", "latestDate: tomorrow", "protect: Deny"},
}

// TestWhatIsNotAskedDoesNotCount: leaving policies out that could only say what has been said
// changes nothing that follows.
func TestWhatIsNotAskedDoesNotCount(t *testing.T) {
	compiler := expression.NewCompiler(256)
	asked, all := 0, 0
	check := func(t *rapid.T) {
		part := func(name string) string {
			if text := rapid.SampledFrom(specParts[name]).Draw(t, name); text != "" {
				return name + ": {" + text + "}"
			}
			return ""
		}
		var policies []*expression.Policy
		for i := range rapid.IntRange(2, 6).Draw(t, "policies") {
			text := "{" + strings.Join(nonEmpty(part("match"), part("defaults"), part("bounds"), rapid.SampledFrom([]string{"", "", "", "", "", "warnBelow: 5m"}).Draw(t, "warnBelow"),
				rapid.SampledFrom([]string{"", "backfill: true"}).Draw(t, "backfill"), rapid.SampledFrom([]string{"", "", "mode: Warn", "mode: DryRun"}).Draw(t, "mode"), rapid.SampledFrom([]string{"", "", "propagationPolicy: Orphan", "propagationPolicy: Foreground"}).Draw(t, "propagation"), "priority: "+fmt.Sprint(rapid.IntRange(-1, 1).Draw(t, "priority"))), ", ") + "}"
			compiled, _ := compiler.Policy(lifecyclePolicy(t, fmt.Sprintf("p%d", i), text))
			policies = append(policies, compiled)
		}
		expression.Sort(policies)
		annotations := map[string]string{}
		for _, key := range []string{wellknown.AnnotationDefaultTTL, wellknown.AnnotationDefaultTTLFailed, wellknown.AnnotationDefaultPodTTL, wellknown.AnnotationDefaultDeadline, wellknown.AnnotationMaxTTL} {
			if rapid.IntRange(0, 7).Draw(t, key) == 0 {
				annotations[key] = rapid.SampledFrom([]string{"4h", "30m", "soon"}).Draw(t, "value of "+key)
			}
		}
		namespace := resolution.ParseNamespace("ci", annotations, map[string]string{"env": "test"})
		facts, object := matchingFacts(t)
		variables := &expression.Variables{Object: object, NamespacePolicy: namespace}

		var every []*resolution.PlatformPolicy
		for _, p := range policies {
			if platformPolicy, matched, _ := p.For(context.Background(), facts, variables); matched {
				every = append(every, platformPolicy)
			}
		}
		some, _ := expression.Matching(context.Background(), policies, facts, variables)
		asked, all = asked+len(some), all+len(every)
		for _, creating := range []bool{true, false} {
			want := consequences(facts, &resolution.Scope{Namespace: namespace, Policies: every, Creating: creating})
			have := consequences(facts, &resolution.Scope{Namespace: namespace, Policies: some, Creating: creating})
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("creating %v:\ngot  %+v\nwant %+v", creating, have, want)
			}
		}
	}
	// What differs is rare: a policy before that matches and has nothing to say of the one thing.
	for range 10 {
		rapid.Check(t, check)
	}
	if asked == 0 || asked*10 > all*9 {
		t.Errorf("%d of %d policies that match were asked: nothing is tested", asked, all)
	}
}

func nonEmpty(parts ...string) []string {
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return out
}

// matchingFacts are a Job or a Pod, some of them stamped, owned, or with a TTL of their own.
func matchingFacts(t *rapid.T) (*policy.Facts, map[string]any) {
	metadata := map[string]any{"name": "x", "namespace": "ci", "creationTimestamp": epoch.Format(time.RFC3339)}
	spec := map[string]any{"parallelism": int64(4), "restartPolicy": "Never"}
	profile := rapid.SampledFrom([]*policy.Profile{policy.JobProfile, policy.PodProfile}).Draw(t, "profile")
	annotations := map[string]any{}
	if rapid.IntRange(0, 3).Draw(t, "own") == 0 {
		annotations[wellknown.AnnotationTTL] = "45m"
	}
	if rapid.IntRange(0, 2).Draw(t, "stamped") == 0 {
		annotations[wellknown.AnnotationTTLSource] = rapid.SampledFrom([]string{"namespace/ci", "policy/p0", "object"}).Draw(t, "stamp")
	}
	metadata["annotations"] = annotations
	if owner := rapid.SampledFrom([]string{"", "", "Job", "CronJob", "Workflow"}).Draw(t, "owner"); owner != "" {
		metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "batch/v1", "kind": owner, "name": "o", "uid": "u", "controller": true}}
	}
	object := map[string]any{"metadata": metadata, "spec": spec}
	return policy.FactsOfObject(profile, object), object
}

// consequences are all answers of a scope.
func consequences(facts *policy.Facts, scope *resolution.Scope) map[string]any {
	assignments, filled := resolution.FillIn(facts, scope, epoch)
	effective := resolution.Resolve(facts, scope)
	label, setting := resolution.DefaultLabel(facts, scope, epoch)
	source := ""
	if setting != nil {
		source = setting.Source.String()
	}
	own, err := lifetime.ParseTTLLabel("3d")
	if err != nil {
		panic(err)
	}
	warnBelow := time.Duration(0)
	for _, p := range scope.Policies {
		if warnBelow == 0 {
			warnBelow = p.WarnBelow
		}
	}
	unfilled, _ := resolution.Unfilled(facts, scope, epoch)
	return map[string]any{
		"assignments": assignments, "filled": filled, "effective": effective, "trial": resolution.ResolveTrial(facts, scope), "told": resolution.Defaulted(facts, scope, epoch),
		"label": label, "label's source": source,
		"bounds": fmt.Sprintf("%+v", bounded(scope.Policies)), "enforced": scope.BoundsFor(facts, resolution.EnforcedBounds), "outer": scope.BoundsFor(facts, resolution.AllBounds),
		"own label": fmt.Sprint(scope.CheckLabel(own, epoch, resolution.EnforcedBounds)), "warnBelow": warnBelow,
		"unfilled": unfilled, "defaulted label": resolution.DefaultedLabel(facts, scope, epoch),
	}
}

// TestEveryPartOfAPolicyIsAnAnswer: whoever adds a part to PlatformPolicy has to say when it counts
// (Policy.answers).
func TestEveryPartOfAPolicyIsAnAnswer(t *testing.T) {
	known := map[string]string{
		"Name": "no answer", "NamesKind": "no answer", "Since": "of a default", "Backfill": "of a default", "Mode": "of bounds",
		"TTL": "first", "Deadline": "first", "Label": "first", "Bounds": "all", "LatestDate": "all", "LatestUnreadable": "all", "Protect": "all", "WarnBelow": "always asked", "Propagation": "first", "PropagationErr": "first",
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[resolution.PlatformPolicy]()) {
		if known[field.Name] == "" {
			t.Errorf("PlatformPolicy.%s: say in Policy.answers when a policy that has it must be asked, and note it here", field.Name)
		}
	}
}
