package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// event is one thing that happens in a history.
type event struct {
	at              time.Duration
	what            string
	namespace, name string
	value           string
	n               int64
}

func (e event) String() string {
	return fmt.Sprintf("%s %s %s/%s %q %d", e.at.Round(time.Millisecond), e.what, e.namespace, e.name, e.value, e.n)
}

// object is an object in YAML, with its resource.
type object struct{ resource, text string }

// setup is what exists before Curfew starts.
var setup = []object{
	{"namespaces", "metadata: {name: ci, annotations: {curfew.dev/default-ttl: 60s, curfew.dev/default-pod-ttl: 40s}}"},
	{"namespaces", "metadata: {name: dev}"},
	{"nodes", "metadata: {name: node-1}"},
	{"serviceaccounts", "metadata: {namespace: curfew-system, name: curfew-cleanup}"},
	{"kindprofiles.curfew.dev", `
metadata: {name: runs.world.example.dev}
spec:
  kind: {group: world.example.dev, version: v1, kind: Run, resource: runs}
  state:
    finished: has(object.status) && (has(object.status.finishedAt) || has(object.status.conditions))
    finishTime: >-
      object.?status.?finishedAt.or(object.?status.?conditions[?0].?lastTransitionTime)
    outcome: "has(object.status.conditions) ? 'Failed' : 'Succeeded'"
    started: object.?metadata.?creationTimestamp
  deadline:
    allowDefault: true
    enforcement:
    - by: Curfew
      stop: [{action: MarkFailed}, {action: DeletePods}]`},
	{"clustercleanuppolicies.curfew.dev", cleanupPolicy},
	{"podtallies.curfew.dev", "{metadata: {namespace: dev, name: builds}, spec: {selector: {matchLabels: {app: build}}, ttlAfterCounted: 30s}}"},
}

const cleanupPolicy = `
metadata: {name: tmp}
spec:
  schedule: "*/2 * * * *"
  matchConstraints:
    resourceRules: [{apiGroups: [""], resources: [configmaps], resourceNames: ["tmp-*"]}]
  conditions:
  - name: not-kept
    expression: object.?metadata.?labels[?"keep"].orValue("") == ""`

// kindsOfEvents are the events, as often as they are likely.
var kindsOfEvents = []struct {
	what   string
	weight int
	values []string
}{
	{"job", 6, []string{"", "20", "45", "100"}},
	{"pod", 5, []string{"", "20s", "1m", "2m", "soon", "1y"}},
	{"build", 6, []string{"Succeeded", "Failed"}},
	{"labelled", 6, []string{"30s", "1m", "90s", "soon", "2x"}},
	{"tmp", 6, []string{"", "", "keep"}},
	{"run", 4, []string{"30s", "1m", "later", ""}},
	{"finish", 4, []string{""}},
	{"relabel", 4, []string{"20s", "3m", "never-ever", ""}},
	{"extend", 4, []string{"10", "200", "1000"}},
	{"protect", 3, []string{"true", ""}},
	{"recreate", 3, []string{""}},
	{"remove", 3, []string{"Background", "Foreground", "Orphan"}},
	{"hold", 2, []string{"example.dev/hold"}},
	{"namespace", 4, []string{"mode=dry-run", "mode=", "min-ttl=40s", "min-ttl=", "default-ttl=30s", "default-ttl=5m", "default-ttl=1y"}},
	{"policy", 2, []string{"20s", "DryRun", ""}},
	{"pause", 2, []string{"", "ttl", "label", "cleanup", "deadline"}},
	{"resume", 3, []string{""}},
	{"freeze", 3, []string{"namespaces", "jobs.batch", "pods", "configmaps", "lifecyclepolicies.curfew.dev", "deletionpauses.curfew.dev", "clustercleanuppolicies.curfew.dev", "podtallies.curfew.dev"}},
	{"disconnect", 2, []string{"namespaces", "jobs.batch", "pods", "configmaps"}},
	{"compact", 2, []string{""}},
	{"trouble", 4, []string{""}},
	{"race", 4, []string{""}},
	{"kill", 2, []string{""}},
	{"stop", 1, []string{""}},
	{"cut", 2, []string{""}},
	{"skew", 1, []string{""}},
}

// plan is the history of a seed: what happens in some minutes.
func plan(seed uint64) []event {
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404
	total := 0
	for _, kind := range kindsOfEvents {
		total += kind.weight
	}
	var out []event
	for i := range 20 + random.IntN(40) {
		index := random.IntN(total)
		for _, kind := range kindsOfEvents {
			if index -= kind.weight; index >= 0 {
				continue
			}
			out = append(out, event{
				at: time.Duration(random.Int64N(int64(6 * time.Minute))), what: kind.what, namespace: []string{"ci", "dev"}[random.IntN(2)],
				name: fmt.Sprint("x", i), value: kind.values[random.IntN(len(kind.values))], n: random.Int64N(60),
			})
			break
		}
	}
	slices.SortFunc(out, func(a, b event) int { return int(a.at - b.at) })
	return out
}

// create creates an object of the setup.
func (s *simulation) create(o object) {
	content := map[string]any{}
	must(s.t, yaml.Unmarshal([]byte(o.text), &content))
	if _, err := s.Create(o.resource, content); err != nil {
		s.t.Fatal(err)
	}
}

// add creates an object in the course of a history; its namespace may be gone.
func (s *simulation) add(resource, format string, args ...any) {
	content := map[string]any{}
	must(s.t, yaml.Unmarshal(fmt.Appendf(nil, format, args...), &content))
	_, _ = s.Create(resource, content)
}

// apply has an event happen.
func (s *simulation) apply(e event) {
	switch e.what {
	case "job", "pod", "build", "labelled", "tmp", "run":
		s.newObject(e)
	case "finish", "relabel", "extend", "protect", "recreate", "remove", "hold":
		s.change(e)
	case "namespace", "policy", "pause", "resume":
		s.changeRules(e)
	default:
		s.disturb(e)
	}
}

func (s *simulation) newObject(e event) {
	switch e.what {
	case "job":
		ttl := ""
		if e.value != "" {
			ttl = "ttlSecondsAfterFinished: " + e.value + ", "
		}
		fails := ""
		if e.n%5 == 0 {
			fails = ", world/fails: 'true'"
		}
		s.add("jobs.batch", "{metadata: {namespace: %s, name: %s}, spec: {%scompletions: %d, template: {metadata: {annotations: {world/runs: '%d'%s}}}}}", e.namespace, e.name, ttl, 1+e.n%3, e.n, fails)
	case "pod":
		ttl := ""
		if e.value != "" {
			ttl = ", curfew.dev/ttl-after-finished: '" + e.value + "'"
		}
		s.add("pods", "{metadata: {namespace: %s, name: %s, annotations: {world/runs: '%d'%s}}, spec: {restartPolicy: Never}}", e.namespace, e.name, e.n, ttl)
	case "build":
		fails := ""
		if e.value == "Failed" {
			fails = ", world/fails: 'true'"
		}
		s.add("pods", "{metadata: {namespace: dev, name: %s, labels: {app: build}, annotations: {world/runs: '%d'%s}}, spec: {restartPolicy: Never}}", e.name, e.n, fails)
	case "labelled":
		s.add("configmaps", "metadata: {namespace: %s, name: %s, labels: {curfew.dev/ttl: '%s'}}", e.namespace, e.name, e.value)
	case "tmp":
		s.add("configmaps", "metadata: {namespace: %s, name: tmp-%s, labels: {keep: '%s'}}", e.namespace, e.name, e.value)
	case "run":
		s.add("runs.world.example.dev", "metadata: {namespace: %s, name: %s, annotations: {curfew.dev/active-deadline: '%s', curfew.dev/ttl-after-finished: 50s}}", e.namespace, e.name, e.value)
	}
}

// victim is an object that an event changes: the nth of those that users made.
func (s *simulation) victim(n int64, resources ...string) (resource string, found *unstructured.Unstructured) {
	type one struct {
		resource string
		object   *unstructured.Unstructured
	}
	var all []one
	for _, resource := range resources {
		for _, object := range s.Objects(resource) {
			if object.GetNamespace() == "ci" || object.GetNamespace() == "dev" {
				all = append(all, one{resource, object})
			}
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	picked := all[int(n)%len(all)]
	return picked.resource, picked.object
}

func (s *simulation) change(e event) {
	resources := map[string][]string{"finish": {"runs.world.example.dev"}, "relabel": {"configmaps"}, "extend": {"jobs.batch"}}[e.what]
	if resources == nil {
		resources = []string{"configmaps", "jobs.batch", "pods", "runs.world.example.dev"}
	}
	resource, object := s.victim(e.n, resources...)
	if object == nil {
		return
	}
	edit := func(how func(*unstructured.Unstructured)) {
		subresource := ""
		if e.what == "finish" {
			subresource = "status"
		}
		s.Edit("user", resource, object.GetNamespace(), object.GetName(), subresource, how)
	}
	switch e.what {
	case "finish":
		edit(func(live *unstructured.Unstructured) {
			if status, _, _ := unstructured.NestedMap(live.Object, "status"); len(status) == 0 {
				_ = unstructured.SetNestedField(live.Object, s.Now().UTC().Format(time.RFC3339), "status", "finishedAt")
			}
		})
	case "relabel":
		edit(func(live *unstructured.Unstructured) {
			live.SetLabels(with(live.GetLabels(), "curfew.dev/ttl", e.value))
		})
	case "extend":
		edit(func(live *unstructured.Unstructured) {
			var seconds int64
			_, _ = fmt.Sscan(e.value, &seconds)
			_ = unstructured.SetNestedField(live.Object, seconds, "spec", "ttlSecondsAfterFinished")
		})
	case "protect":
		edit(func(live *unstructured.Unstructured) {
			live.SetAnnotations(with(live.GetAnnotations(), "curfew.dev/protect", e.value))
		})
	case "hold":
		edit(func(live *unstructured.Unstructured) { live.SetFinalizers(append(live.GetFinalizers(), e.value)) })
	case "recreate":
		_ = s.Remove("user", resource, object.GetNamespace(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		again := object.DeepCopy()
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "finalizers", "ownerReferences", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"} {
			unstructured.RemoveNestedField(again.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(again.Object, "spec", "nodeName")
		again.SetAnnotations(with(again.GetAnnotations(), "curfew.dev/counted-by", ""))
		_, _ = s.Create(resource, again.Object)
	case "remove":
		_ = s.Remove("user", resource, object.GetNamespace(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletionPropagation(e.value))})
	}
}

// with is a map with a key, or without it for an empty value.
func with(all map[string]string, key, value string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		out[k] = v
	}
	if out[key] = value; value == "" {
		delete(out, key)
	}
	return out
}
