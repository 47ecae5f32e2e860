package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// newObjects are what authors create, by name. Each is a merge patch away from what others make of it.
var newObjects = map[string]string{
	"Job": `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci}, spec: {template: {spec: {restartPolicy: Never}}}}`,
	"a CronJob's Job": `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: u, controller: true}]},
		spec: {template: {spec: {restartPolicy: Never}}}}`,
	"Pod":      `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ci}, spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}`,
	"JobSet":   `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: ci}, spec: {replicatedJobs: []}}`,
	"TrainJob": `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: ci}, spec: {runtimeRef: {name: torch}}}`,
}

// otherWebhooks change a new object, as merge patches. Their values are no defaults.
var otherWebhooks = map[string]string{
	"nothing":            `{}`,
	"an owner":           `{metadata: {ownerReferences: [{apiVersion: example.org/v1, kind: Flow, name: f, uid: u, controller: true}]}}`,
	"a CronJob":          `{metadata: {ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: u, controller: true}]}}`,
	"protection":         `{metadata: {annotations: {curfew.dev/protect: "true"}}}`,
	"a TTL":              `{metadata: {annotations: {curfew.dev/ttl-after-finished: 49h}}}`,
	"never":              `{metadata: {annotations: {curfew.dev/ttl-after-finished: never}}}`,
	"a TTL, succeeded":   `{metadata: {annotations: {curfew.dev/ttl-after-succeeded: 49h}}}`,
	"a TTL, failed":      `{metadata: {annotations: {curfew.dev/ttl-after-failed: 49h}}}`,
	"a native TTL":       `{spec: {ttlSecondsAfterFinished: 5000}}`,
	"a native deadline":  `{spec: {activeDeadlineSeconds: 6000}}`,
	"another deadline":   `{metadata: {annotations: {curfew.dev/active-deadline: 4000s}}}`,
	"a deadline":         `{metadata: {annotations: {curfew.dev/active-deadline: 5000s}}}`,
	"labels":             `{metadata: {labels: {team: a}}}`,
	"other labels":       `{metadata: {labels: {team: b}}}`,
	"a TTL label":        `{metadata: {labels: {curfew.dev/ttl: 99h}}}`,
	"Kyverno's label":    `{metadata: {labels: {cleanup.kyverno.io/ttl: 99h}}}`,
	"tallied labels":     `{metadata: {labels: {app: build}}}`,
	"MultiKueue's label": `{metadata: {labels: {kueue.x-k8s.io/multikueue-origin: x}}}`,
	"another manager":    `{spec: {managedBy: example.org/other}}`,
	"restarts":           `{spec: {restartPolicy: Always}}`,
	"finalizers":         `{metadata: {finalizers: [example.org/a]}}`,
	"no TTL":             `{metadata: {annotations: {curfew.dev/ttl-after-finished: null, curfew.dev/ttl-after-succeeded: null, curfew.dev/ttl-after-failed: null}}, spec: {ttlSecondsAfterFinished: null}}`,
	"no deadline":        `{metadata: {annotations: {curfew.dev/active-deadline: null}}, spec: {activeDeadlineSeconds: null}}`,
	"no TTL label":       `{metadata: {labels: {curfew.dev/ttl: null}}}`,
}

// drawnNamespace has random defaults and bounds.
func drawnNamespace(t *rapid.T) map[string]string {
	out := map[string]string{}
	values := map[string][]string{
		"default-ttl": {"", "", "30s", "1d"}, "default-ttl-succeeded": {"", "", "1h", "1d"}, "default-ttl-failed": {"", "", "7d"}, "default-pod-ttl": {"", "2h"},
		"default-deadline": {"", "2h"}, "min-ttl": {"", "", "90m"}, "max-ttl": {"", "", "50h"}, "max-deadline": {"", "90m"},
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if value := rapid.SampledFrom(values[key]).Draw(t, key); value != "" {
			out["curfew.dev/"+key] = value
		}
	}
	return out
}

// policies match by labels, and by the absence of what they fill in.
var drawnPolicies = map[string]string{
	"bare":    `{priority: 3, match: {matchConditions: [{name: bare, expression: "!has(object.spec.ttlSecondsAfterFinished)"}]}, defaults: {ttl: {value: 3d}}}`,
	"team":    `{priority: 2, match: {objectSelector: {matchLabels: {team: a}}}, defaults: {ttl: {value: 4d}, ttlFailed: {value: 6d}, deadline: {value: 4h}, ttlLabel: {value: 20d}}, bounds: {maxTTL: 5d}}`,
	"bounds":  `{priority: 1, match: {objectSelector: {matchLabels: {team: b}}}, bounds: {minTTL: 2h, maxTTL: 12h, maxDeadline: 1h, maxTTLLabel: 10d}}`,
	"labels":  `{match: {matchConditions: [{name: none, expression: "!('curfew.dev/ttl' in object.metadata.?labels.orValue({}))"}]}, defaults: {ttlLabel: {value: 30d}}}`,
	"dry run": `{priority: 4, mode: DryRun, match: {objectSelector: {matchLabels: {team: a}}}, defaults: {ttl: {value: 8h}}, bounds: {maxTTL: 1h}}`,
}

// TestOrderOfWebhooks: what is stored does not depend on whether another webhook comes before Curfew's
// or after it, where the API server then calls Curfew's again (S5, S6).
func TestOrderOfWebhooks(t *testing.T) {
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	trainingRuntime := *parsed[map[string]any](t, `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: ClusterTrainingRuntime, metadata: {name: torch, annotations: {curfew.dev/active-deadline: 3h}}, spec: {}}`)
	rapid.Check(t, func(r *rapid.T) {
		kind := rapid.SampledFrom(slices.Sorted(maps.Keys(newObjects))).Draw(r, "kind")
		before := rapid.SampledFrom(slices.Sorted(maps.Keys(otherWebhooks))).Draw(r, "author")
		change := rapid.SampledFrom(slices.Sorted(maps.Keys(otherWebhooks))).Draw(r, "webhook")
		if strings.HasSuffix(before, " deadline") && change == "a native deadline" {
			return // Beside the author's annotation, the native field is a copy of it.
		}
		for _, name := range slices.Sorted(maps.Keys(drawnPolicies)) {
			known.PutPolicy(name, nil)
			if rapid.Bool().Draw(r, "policy "+name) {
				known.SetPolicy(&v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *parsed[v1alpha1.LifecyclePolicySpec](t, drawnPolicies[name])})
			}
		}
		w := newWorld(t, func(o *Options) {
			o.Platform, o.KyvernoLabel = known, true
			o.Runtimes = &runtimes{objects: map[string]map[string]any{}}
			o.AnnotationsOnly = rapid.Bool().Draw(r, "annotations only")
			o.Tallies = &tallies{of: map[string][]*tally.Tally{"ci": {builds("ci", "builds", false)}}}
			if rapid.Bool().Draw(r, "runtime's deadline") {
				o.Runtimes = &runtimes{objects: map[string]map[string]any{"torch": trainingRuntime}}
			}
		})
		defer w.server.Close()
		w.namespaces.cached["ci"] = drawnNamespace(r)
		curfew := func(object string) string {
			return patchedObject(t, object, w.ask(t, ask{path: PathMutate, namespace: "ci", object: object}))
		}
		other := func(object string) string {
			return string(mergePatch(t, toJSON(t, object), toJSON(t, otherWebhooks[change])))
		}
		created := string(mergePatch(t, toJSON(t, newObjects[kind]), toJSON(t, otherWebhooks[before])))
		want, first := curfew(other(created)), curfew(created)
		got := other(first)
		if !sameObject(t, got, first) {
			got = curfew(got)
		}
		if !sameObject(t, got, want) {
			r.Fatalf("Curfew's webhook before the other stores\n%s\nafter it\n%s", got, want)
		}
		if again := curfew(got); !sameObject(t, again, got) {
			r.Fatalf("called once more, it makes\n%s\nof\n%s", again, got)
		}
		answers := [2]string{}
		for i, object := range []string{got, want} {
			response := w.ask(t, ask{path: PathValidate, namespace: "ci", object: object})
			answers[i] = fmt.Sprint(response.Result.Message, response.Warnings, response.AuditAnnotations)
		}
		if answers[0] != answers[1] {
			r.Fatalf("the validating webhook says\n%s\nor\n%s", answers[0], answers[1])
		}
	})
}

// sameObject leaves out empty maps and lists.
func sameObject(t *testing.T, a, b string) bool {
	t.Helper()
	var objects [2]map[string]any
	for i, text := range []string{a, b} {
		must(t, json.Unmarshal(toJSON(t, text), &objects[i]))
		metadata := objects[i]["metadata"].(map[string]any)
		for _, key := range []string{"annotations", "labels", "finalizers"} {
			if value := reflect.ValueOf(metadata[key]); value.IsValid() && value.Len() == 0 {
				delete(metadata, key)
			}
		}
		if list, ok := metadata["finalizers"].([]any); ok {
			slices.SortFunc(list, func(a, b any) int { return len(a.(string)) - len(b.(string)) })
		}
	}
	return reflect.DeepEqual(objects[0], objects[1])
}
