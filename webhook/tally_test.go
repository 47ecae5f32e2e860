package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// tallies are PodTallies by namespace.
type tallies struct {
	of  map[string][]*tally.Tally
	err error
}

func (t *tallies) In(namespace string) ([]*tally.Tally, error) { return t.of[namespace], t.err }

// builds counts the Pods with label app: build.
func builds(namespace, name string, deleting bool) *tally.Tally {
	object := &v1alpha1.PodTally{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(t0)}}
	object.Spec.Selector.MatchLabels = map[string]string{"app": "build"}
	if deleting {
		object.DeletionTimestamp = &metav1.Time{Time: t0}
	}
	compiled, _ := tally.Compile(object)
	return compiled
}

func counting() *tallies {
	return &tallies{of: map[string][]*tally.Tally{
		"plain": {builds("plain", "builds", false)}, "pods": {builds("pods", "builds", false)}, "dry": {builds("dry", "builds", false)},
		"dead": {builds("dead", "builds", true)},
	}}
}

// TestHold has the very patch for each new Pod.
func TestHold(t *testing.T) {
	const (
		meta  = "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: build}"
		never = "}, spec: {restartPolicy: Never}}"
		held  = `{"op":"add","path":"/metadata/finalizers","value":["curfew.dev/tally"]}`
	)
	for name, test := range map[string]struct {
		namespace, object, patch string
		off, unknown             bool
	}{
		"selected":             {object: meta + never, patch: "[" + held + "]"},
		"no stamped default":   {namespace: "pods", object: meta + never, patch: "[" + held + "]"}, // The tally's TTL comes first.
		"in dry-run":           {namespace: "dry", object: meta + never, patch: "[" + held + "]"},
		"null finalizers":      {object: meta + ", finalizers: null" + never, patch: `[{"op":"replace","path":"/metadata/finalizers","value":["curfew.dev/tally"]}]`},
		"other finalizers":     {object: meta + ", finalizers: [example.com/a]" + never, patch: `[{"op":"replace","path":"/metadata/finalizers","value":["example.com/a","curfew.dev/tally"]}]`},
		"called again":         {object: meta + ", finalizers: [curfew.dev/tally]" + never},
		"other labels":         {object: "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: other}}, spec: {restartPolicy: Never}}"},
		"restarts":             {object: meta + "}, spec: {}}"},
		"of a Job":             {object: meta + ", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]" + never},
		"of an executor":       {object: meta + ", ownerReferences: [{apiVersion: v1, kind: Pod, name: driver, uid: u, controller: true}]" + never, patch: "[" + held + "]"},
		"mirror":               {object: meta + ", annotations: {kubernetes.io/config.mirror: x}" + never},
		"deletionTimestamp":    {object: meta + ", deletionTimestamp: '2026-08-01T00:00:00Z'" + never, patch: "[" + held + "]"},
		"tally being deleted":  {namespace: "dead", object: meta + never},
		"no tally":             {namespace: "ci", object: "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: build}}}"},
		"off":                  {object: meta + never, off: true},
		"tallies unknown":      {object: meta + ", finalizers: [curfew.dev/tally]" + never, unknown: true},
		"unknown, counted":     {object: meta + ", annotations: {a: b, curfew.dev/counted-by: x}" + never, unknown: true, patch: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1counted-by"}]`},
		"copied, counted":      {object: meta + ", annotations: {a: b, curfew.dev/counted-by: x}" + never, patch: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1counted-by"},` + held + `]`},
		"copied, other labels": {object: "{apiVersion: v1, kind: Pod, metadata: {name: a, finalizers: [curfew.dev/tally]}, spec: {restartPolicy: Never}}", patch: `[{"op":"remove","path":"/metadata/finalizers"}]`},
		"copied, one of two":   {object: "{apiVersion: v1, kind: Pod, metadata: {name: a, finalizers: [curfew.dev/tally, example.com/a]}, spec: {restartPolicy: Never}}", patch: `[{"op":"replace","path":"/metadata/finalizers","value":["example.com/a"]}]`},
		"not a Pod":            {object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, labels: {app: build}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			tallies := counting()
			if test.unknown {
				tallies.err = errors.New("not listed yet")
			}
			w := newWorld(t, func(o *Options) {
				if !test.off {
					o.Tallies = tallies
				}
			})
			if test.namespace == "" {
				test.namespace = "plain"
			}
			response := w.ask(t, ask{path: PathMutate, namespace: test.namespace, object: test.object})
			if !response.Allowed || string(response.Patch) != test.patch {
				t.Fatalf("allowed %v, patch\n%s\nwant\n%s", response.Allowed, response.Patch, test.patch)
			}
			if again := w.ask(t, ask{path: PathMutate, namespace: test.namespace, object: patchedObject(t, test.object, response)}); len(again.Patch) > 0 {
				t.Errorf("not idempotent: %s", again.Patch)
			}
			if !test.off && !test.unknown && len(test.patch) > 0 && w.namespaces.liveReads > 0 {
				t.Error("the namespace was read live, although its tally explains why the Pod is sent")
			}
		})
	}
}

// S9: the oldest tallies of a namespace count. Of more, admission takes no notice.
func TestHoldWithTooManyTallies(t *testing.T) {
	tallies := counting()
	w := newWorld(t, func(o *Options) { o.Tallies = tallies })
	object := "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: build}}, spec: {restartPolicy: Never}}"
	for count, want := range map[int]bool{tally.MaxPerNamespace: true, tally.MaxPerNamespace + 1: false} {
		tallies.of["plain"] = make([]*tally.Tally, count)
		for i := range tallies.of["plain"] {
			older := &v1alpha1.PodTally{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: fmt.Sprint(i), CreationTimestamp: metav1.NewTime(t0.Add(-time.Hour))}}
			older.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
			tallies.of["plain"][i], _ = tally.Compile(older)
		}
		tallies.of["plain"][count-1] = builds("plain", "builds", false)
		if response := w.ask(t, ask{path: PathMutate, namespace: "plain", object: object}); !response.Allowed || len(response.Patch) > 0 != want {
			t.Errorf("%d tallies: patch %s, want one: %v", count, response.Patch, want)
		}
	}
	tallies.of["plain"] = tallies.of["plain"][:tally.MaxPerNamespace]
	for range 2 {
		response := w.ask(t, ask{path: PathValidatePolicy, namespace: "plain", object: "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: more, namespace: plain}, spec: {selector: {matchLabels: {app: third}}}}"})
		if full := len(tallies.of["plain"]) == tally.MaxPerNamespace; response.Allowed == full {
			t.Errorf("one more than %d: %+v", len(tallies.of["plain"]), response.Result)
		}
		tallies.of["plain"] = tallies.of["plain"][1:]
	}
}

// Finalizers of the wrong type are the API server's to refuse: the patch is dropped.
func TestHoldDropsAPatchThatDoesNotApply(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Tallies = counting() })
	for _, finalizers := range []string{"{a: b}", "3"} {
		object := "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: build}, finalizers: " + finalizers + "}, spec: {restartPolicy: Never}}"
		if response := w.ask(t, ask{path: PathMutate, namespace: "plain", object: object}); !response.Allowed {
			t.Errorf("finalizers %s: %+v", finalizers, response.Result)
		}
	}
}

// The label by which Pods are sent stays while a tally counts Pods, and until that is known.
func TestMutateNamespaceWithTallies(t *testing.T) {
	labelled, bare := namespace("curfew.dev/pods-in-use: 'true'", "curfew.dev/mode: warn"), namespace("", "curfew.dev/mode: warn")
	const add, remove = `[{"op":"add","path":"/metadata/labels/curfew.dev~1pods-in-use","value":"true"}]`, `[{"op":"remove","path":"/metadata/labels/curfew.dev~1pods-in-use"}]`
	for name, test := range map[string]struct {
		tallies     TallyGetter
		old, object string
		patch       string
	}{
		"a tally":              {&tallies{of: map[string][]*tally.Tally{"ci": {builds("ci", "a", false)}}}, labelled, labelled, ""},
		"a tally, label taken": {&tallies{of: map[string][]*tally.Tally{"ci": {builds("ci", "a", false)}}}, labelled, bare, add},
		"being deleted":        {&tallies{of: map[string][]*tally.Tally{"ci": {builds("ci", "a", true)}}}, labelled, labelled, remove},
		"none":                 {&tallies{}, labelled, labelled, remove},
		"off":                  {nil, labelled, labelled, remove},
		"unknown":              {&tallies{err: errors.New("not listed yet")}, labelled, labelled, ""},
		"unknown, no label":    {&tallies{err: errors.New("not listed yet")}, bare, labelled, remove},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Tallies = test.tallies })
			response := w.ask(t, ask{path: PathMutateNamespace, namespace: "ci", object: test.object, old: test.old})
			if !response.Allowed || string(response.Patch) != test.patch {
				t.Errorf("allowed %v, patch %s, want %s", response.Allowed, response.Patch, test.patch)
			}
		})
	}
}

// patchPods is the answer of a reviewer to whether the controller may patch Pods.
type patchPods bool

func (a patchPods) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if what.Verb != "patch" || what.Resource != "pods" || what.Namespace != "bounded" {
		return false, errors.New("not what counting takes")
	}
	return bool(a), nil
}

func TestValidateTally(t *testing.T) {
	const head = "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: a}, spec: {selector: {matchLabels: {app: test}}"
	for name, test := range map[string]struct {
		object, old string
		forbidden   bool
		denied      string
		warnings    []string
	}{
		"fits":                {object: head + ", ttlAfterCounted: 2h}}"},
		"no TTL":              {object: head + "}}"},
		"bad operator":        {object: "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: a}, spec: {selector: {matchExpressions: [{key: app, operator: Like}]}}}", denied: `spec.selector: "Like" is not a valid label selector operator`},
		"empty":               {object: "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: a}, spec: {selector: {}}}", denied: "spec.selector: an empty selector would match every Pod of the namespace"},
		"fraction":            {object: head + ", ttlAfterCounted: 1.5ns}}", denied: "is not a whole number of seconds"},
		"below min-ttl":       {object: head + ", ttlAfterCounted: 10m}}", denied: "spec.ttlAfterCounted: 10m is below curfew.dev/min-ttl"},
		"never above max-ttl": {object: head + ", ttlAfterCounted: never}}", denied: "spec.ttlAfterCounted: never is above curfew.dev/max-ttl"},
		"as it was":           {object: head + ", ttlAfterCounted: 10m}}", old: head + ", ttlAfterCounted: 10m}}"},
		"changed":             {object: head + ", ttlAfterCounted: 11m}}", old: head + ", ttlAfterCounted: 10m}}", denied: "11m is below"},
		"may not patch":       {object: head + "}}", forbidden: true, warnings: []string{`Curfew's controller lacks the permission to patch Pods in namespace "bounded": no Pod is counted until an admin grants that`}},
		"may not, unchanged":  {object: head + "}}", old: head + "}}", forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) {
				o.Tallies, o.Access, o.ControllerUser = counting(), patchPods(!test.forbidden), "system:serviceaccount:curfew-system:curfew-controller"
			})
			response := w.ask(t, ask{path: PathValidatePolicy, namespace: "bounded", object: test.object, old: test.old})
			got := ""
			if !response.Allowed {
				got = response.Result.Message
			}
			if (got == "") != (test.denied == "") || !strings.Contains(got, test.denied) {
				t.Errorf("got %q, want %q", got, test.denied)
			}
			if strings.Join(response.Warnings, "\n") != strings.Join(prefixed(test.warnings), "\n") {
				t.Errorf("warnings %q, want %q", response.Warnings, test.warnings)
			}
		})
	}
}

// A policy's bounds apply to the TTL that a PodTally, a Job or a CronJob sets for Pods, if it matches
// Pods. One that matches only some of them warns, and one for Jobs alone does not apply.
func TestPoliciesBoundPodTTLs(t *testing.T) {
	const bounded = "{metadata: {name: platform}, spec: {match: {MATCH}, bounds: {minTTL: 10m, maxTTL: 1d}MODE}}"
	for name, test := range map[string]struct {
		match, mode, ttl, field string
		denied, warned          string
	}{
		"within":              {match: "kinds: [{kind: Pod}]", ttl: "1h"},
		"above":               {match: "kinds: [{kind: Pod}]", ttl: "2d", denied: `2d is above maxTTL 1d of policy "platform": use 1d or less`},
		"below":               {match: "kinds: [{kind: Pod}]", ttl: "5m", denied: `5m is below minTTL 10m of policy "platform": use 10m or more`},
		"never":               {match: "kinds: [{kind: Pod}]", ttl: "never", denied: `never is above maxTTL 1d of policy "platform": use 1d or less`},
		"for every kind":      {match: "", ttl: "2d", denied: `2d is above maxTTL 1d of policy "platform": use 1d or less`},
		"for Jobs alone":      {match: "kinds: [{group: batch, kind: Job}]", ttl: "2d"},
		"of other namespace":  {match: "kinds: [{kind: Pod}], namespaceSelector: {matchLabels: {a: b}}", ttl: "2d"},
		"for some Pods":       {match: "kinds: [{kind: Pod}], objectSelector: {matchLabels: {a: b}}", ttl: "2d", warned: `2d is above maxTTL 1d of policy "platform": use 1d or less`},
		"a policy that warns": {match: "kinds: [{kind: Pod}]", mode: ", mode: Warn", ttl: "2d", warned: `2d is above maxTTL 1d of policy "platform": use 1d or less`},
	} {
		w, _, _ := platformWorld(t, strings.NewReplacer("MATCH", test.match, "MODE", test.mode).Replace(bounded))
		for field, each := range map[string]ask{
			"spec.ttlAfterCounted":                                      {path: PathValidatePolicy, object: "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: a}, spec: {selector: {matchLabels: {app: test}}, ttlAfterCounted: TTL}}"},
			"metadata.annotations[curfew.dev/pod-ttl]":                  {path: PathValidate, object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/pod-ttl: TTL}}, spec: {template: {}}}"},
			"spec.jobTemplate.metadata.annotations[curfew.dev/pod-ttl]": {path: PathValidate, object: "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {metadata: {annotations: {curfew.dev/pod-ttl: TTL}}, spec: {template: {}}}}}"},
		} {
			each.namespace, each.object = "plain", strings.ReplaceAll(each.object, "TTL", test.ttl)
			response := w.ask(t, each)
			denied, warned := "", ""
			if !response.Allowed {
				denied = response.Result.Message
			}
			warned = strings.Join(response.Warnings, "\n")
			want := func(message string) string {
				if message == "" {
					return ""
				}
				return field + ": " + message
			}
			if denied != want(test.denied) || !strings.Contains(warned, want(test.warned)) || (warned == "") != (test.warned == "") {
				t.Errorf("%s, %s: denied %q, warned %q", name, field, denied, warned)
			}
		}
	}
}

func prefixed(warnings []string) []string {
	var out []string
	for _, warning := range warnings {
		out = append(out, "curfew: "+warning)
	}
	return out
}

// The tally that is created is not in the cache yet, or already: it does not overlap with itself.
func TestValidateTallyOverlap(t *testing.T) {
	object := func(name, selector string) string {
		return "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: " + name + "}, spec: {selector: {matchLabels: {" + selector + "}}}}"
	}
	for name, test := range map[string]struct {
		object, want string
		off          bool
	}{
		"same":     {object: object("b", "app: build"), want: `spec.selector: PodTally "builds" is older and matches every Pod of this one: this one counts none`},
		"narrower": {object: object("b", "app: build, team: x"), want: `spec.selector: PodTally "builds" is older and matches every Pod of this one: this one counts none`},
		"other":    {object: object("b", "team: x")},
		"itself":   {object: object("builds", "app: build")},
		"off":      {object: object("b", "team: x"), want: "Curfew runs without trigger tally (--enable): no Pod is counted until an admin switches it on", off: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) {
				if o.Tallies = counting(); test.off {
					o.Tallies, o.Controller.Off = nil, []policy.Trigger{policy.TriggerTally}
				}
			})
			response := w.ask(t, ask{path: PathValidatePolicy, namespace: "plain", object: test.object})
			got := strings.TrimPrefix(strings.Join(response.Warnings, "\n"), "curfew: ")
			if !response.Allowed || got != test.want {
				t.Errorf("allowed %v, warnings %q, want %q", response.Allowed, got, test.want)
			}
		})
	}
	wide, narrow := builds("plain", "wide", false), counting().of["plain"][0]
	if !wide.Covers(narrow) || !narrow.Covers(wide) || wide.Covers(builds("pods", "builds", false)) {
		t.Error("equal selectors cover each other, in one namespace")
	}
}
