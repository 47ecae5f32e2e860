package main

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// tonight runs every six hours, next at 19:00 CET, and deletes ConfigMaps that are older than a
// time.
const tonight = `apiVersion: curfew.dev/v1alpha1
kind: CleanupPolicy
metadata: {name: tonight, namespace: attic, uid: 77777777-2d0f-4c39-9f5a-6a4f6e1f4b7a, generation: 1, resourceVersion: "7", creationTimestamp: "2026-12-01T08:00:00Z"}
spec:
  schedule: "0 */6 * * *"
  serviceAccountName: janitor
  matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}]}
  conditions: [{name: old, expression: now - timestamp(object.metadata.creationTimestamp) > duration("10h")}]
`

func attic(t *testing.T, edit func(policy *unstructured.Unstructured)) []runtime.Object {
	t.Helper()
	out := manifests(t, tonight, `{apiVersion: v1, kind: Namespace, metadata: {name: attic, uid: attic}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: attic, uid: attic-first, creationTimestamp: "2026-12-24T05:00:00Z", labels: {name: first}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: attic, uid: attic-later, creationTimestamp: "2026-12-24T11:00:00Z", labels: {name: later}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: attic, uid: attic-kept, creationTimestamp: "2026-12-24T05:00:00Z", labels: {name: kept}, annotations: {curfew.dev/protect: "true"}}}
`)
	if edit != nil {
		edit(out[0].(*unstructured.Unstructured))
	}
	return out
}

func spec(values ...any) func(*unstructured.Unstructured) {
	return func(policy *unstructured.Unstructured) {
		for i := 0; i < len(values); i += 2 {
			name, _ := values[i].(string)
			_ = unstructured.SetNestedField(policy.Object, values[i+1], append([]string{"spec"}, strings.Split(name, ".")...)...)
		}
	}
}

// ofTheCluster makes it a ClusterCleanupPolicy with a limit that other namespaces would exceed.
func ofTheCluster(policy *unstructured.Unstructured) {
	policy.SetKind("ClusterCleanupPolicy")
	policy.SetNamespace("")
	spec("maxDeletions", int64(0), "serviceAccountNamespace", "attic", "matchConstraints.namespaceSelector", map[string]any{})(policy)
}

// both applies several changes to a policy.
func both(edits ...func(*unstructured.Unstructured)) func(*unstructured.Unstructured) {
	return func(policy *unstructured.Unstructured) {
		for _, edit := range edits {
			edit(policy)
		}
	}
}

func generation(n int64) func(*unstructured.Unstructured) {
	return func(policy *unstructured.Unstructured) { policy.SetGeneration(n) }
}

// policyStatus merges fields into the status that describes generation 1.
func policyStatus(fields map[string]any) func(*unstructured.Unstructured) {
	return func(policy *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(policy.Object, int64(1), "status", "observedGeneration")
		for name, value := range fields {
			if nested, ok := value.(map[string]any); ok {
				for name2, value := range nested {
					_ = unstructured.SetNestedField(policy.Object, value, "status", name, name2)
				}
				continue
			}
			_ = unstructured.SetNestedField(policy.Object, value, "status", name)
		}
	}
}

func conditionOf(kind, message string) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": "False", "reason": "Bad", "message": message, "lastTransitionTime": "2026-12-24T08:00:00Z"}}}
}

// missed is the status while the controller is down, and running the status during a run.
var (
	missed  = map[string]any{"nextScheduleTime": "2026-12-24T06:00:00Z"}
	running = map[string]any{"lastRun": map[string]any{"id": "now", "phase": "Running", "scheduledTime": "2026-12-24T12:00:00Z"}}
)

// olderThan replaces the condition of the policy.
func olderThan(age string) func(*unstructured.Unstructured) {
	return spec("conditions", []any{map[string]any{"name": "old", "expression": `now - timestamp(object.metadata.creationTimestamp) > duration("` + age + `")`}})
}

// TestExpiringByCleanupPolicy: the list has the next runs, judged at the time of each run. Notes
// name the runs that cannot be evaluated.
func TestExpiringByCleanupPolicy(t *testing.T) {
	const (
		late     = "configmap/first 2026-12-24 13:00:00 CET now cleanup cleanup/attic/tonight -\n"
		by       = "configmap/first by 2026-12-26 01:00:00 CET 1d12h cleanup cleanup/attic/tonight -\n"
		first    = "configmap/first 2026-12-24 19:00:00 CET 6h cleanup cleanup/attic/tonight -\n"
		later    = "configmap/later 2026-12-25 01:00:00 CET 12h cleanup cleanup/attic/tonight -\n"
		nextOf   = "configmap/later 2026-12-24 19:00:00 CET 6h cleanup cleanup/attic/tonight -\n"
		unsure   = "configmap/first 2026-12-24 19:00:00 CET 6h cleanup cleanup/attic/tonight ?\n"
		idle     = "note: these cleanup policies delete nothing as they are: cleanup/attic/tonight ("
		unlisted = "note: you may not list clustercleanuppolicies: what these delete is not known\n"
	)
	for name, c := range map[string]struct {
		line    string
		edit    func(*unstructured.Unstructured)
		notMine []string
		stdout  string
		stderr  string
	}{
		"tonight":            {line: "-n attic --within 6h", stdout: first},
		"everywhere":         {line: "-A --within 6h --source cleanup/attic/tonight", stdout: "attic " + first},
		"two runs":           {line: "-n attic --within 12h", stdout: first + later},
		"the second run":     {line: "-n attic --between 7h..13h", stdout: later}, // The first run deletes first.
		"before the time":    {line: "-n attic --between 13h..40h", edit: olderThan("1110m"), stdout: strings.NewReplacer("01:00", "07:00", "12h", "18h").Replace(later)},
		"many runs":          {line: "-n attic --between 13h..40h", edit: olderThan("31h"), stdout: by + strings.ReplaceAll(by, "first", "later")},
		"missed":             {line: "-n attic --within 12h", edit: both(olderThan("6h"), policyStatus(missed)), stdout: late + nextOf},
		"missed hours ago":   {line: "-n attic", edit: both(olderThan("6h"), policyStatus(map[string]any{"nextScheduleTime": "2026-12-24T05:00:00Z"}), spec("schedule", "0 5,18 * * *")), stdout: strings.NewReplacer("13:00", "06:00", "now", "overdue 7h").Replace(late) + nextOf},
		"missed, edited":     {line: "-n attic", edit: both(olderThan("6h"), policyStatus(missed), generation(2)), stdout: late + nextOf},
		"missed, other time": {line: "-n attic", edit: both(olderThan("6h"), policyStatus(missed), generation(2), spec("schedule", "5 */6 * * *")), stdout: strings.NewReplacer("19:00", "13:05", "6h", "5m").Replace(first)},
		"missed, too late":   {line: "-n attic", edit: both(olderThan("6h"), policyStatus(map[string]any{"nextScheduleTime": "2026-12-24T05:00:00Z"}), spec("schedule", "0 5,18 * * *", "startingDeadlineSeconds", int64(3600))), stdout: first + nextOf},
		"announced":          {line: "-n attic", edit: policyStatus(map[string]any{"nextScheduleTime": "2026-12-24T18:00:00Z"}), stdout: first},
		"running":            {line: "-n attic", edit: both(olderThan("6h"), policyStatus(running)), stdout: late + nextOf},
		"running dry":        {line: "-n attic", edit: both(olderThan("6h"), policyStatus(running), policyStatus(map[string]any{"lastRun": map[string]any{"dryRun": true}})), stdout: first + nextOf},
		"not ready":          {line: "-n attic --trigger cleanup", edit: policyStatus(conditionOf("Ready", "namespace \"attic\" has 20 older CleanupPolicies")), stderr: idle + "namespace \"attic\" has 20 older CleanupPolicies"},
		"not ready, edited":  {line: "-n attic --trigger cleanup", edit: both(policyStatus(conditionOf("Ready", "bad")), generation(2)), stdout: first},
		"lacks permissions":  {line: "-n attic", edit: policyStatus(conditionOf("PermissionsGranted", "there is no service account")), stdout: unsure},
		"one is idle":        {line: "-n attic", edit: spec("suspend", true), stderr: "note: cleanup policies that delete nothing as they are: 4 (--trigger cleanup names them)\n"},
		"too early":          {line: "-n attic --within 5h"},
		"next run":           {line: "-n attic", stdout: first},
		"label":              {line: "-n attic --within 12h -l name=later", stdout: later},
		"trigger":            {line: "-n attic --trigger cleanup", stdout: first},
		"another trigger":    {line: "-n attic --trigger label"},
		"another kind":       {line: "secrets -n attic"},
		"another namespace":  {line: "configmaps -n foo"},
		"TTL":                {line: "-n attic --ttl-longer-than 1m"},
		"suspended":          {line: "-n attic --trigger cleanup", edit: spec("suspend", true), stderr: idle + "suspended"},
		"dry run":            {line: "-n attic --trigger cleanup", edit: spec("dryRun", true), stderr: idle + "dry run"},
		"not approved":       {line: "-n attic --trigger cleanup", edit: spec("approval", "Required"), stderr: idle + "not approved"},
		"approval not known": {line: "-n attic", edit: spec("approval", "Required"), notMine: []string{"list cleanupapprovals"}, stdout: unsure},
		"stalled":            {line: "-n attic --trigger cleanup", edit: spec("maxDeletions", int64(0)), stderr: idle + "TooManyMatches"},
		"truncated":          {line: "-n attic", edit: spec("maxDeletions", int64(0), "onExceed", "Truncate"), stdout: unsure},
		"limit of more":      {line: "configmaps -n attic", edit: spec("maxDeletions", int64(9)), stdout: unsure},
		"newest":             {line: "-n attic", edit: spec("keepNewest", map[string]any{"count": int64(1)})},
		"own rights":         {line: "-n attic", notMine: []string{"impersonate serviceaccounts"}, stdout: unsure},
		"may not list": {line: "-n attic", notMine: []string{"impersonate serviceaccounts", "list configmaps"},
			stderr: "note: not known what a run deletes: cleanup/attic/tonight: you may not list configmaps in namespace \"attic\"\n"},
		"of the cluster": {line: "-n attic", edit: ofTheCluster, stdout: strings.Replace(unsure, "attic/", "", 1)},
		"tenant":         {line: "-n attic", notMine: []string{"list clustercleanuppolicies"}, stdout: first, stderr: unlisted},
		"tenant II":      {line: "-n attic", notMine: []string{"list clustercleanuppolicies", "list cleanuppolicies"}, stderr: "note: you may not list clustercleanuppolicies and cleanuppolicies: what these delete is not known\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, append(objects(t), attic(t, c.edit)...))
			code, stdout, stderr, _ := executeIn(t, cluster, scene{notMine: c.notMine}, append([]string{"expiring", "--no-headers"}, words(c.line)...)...)
			have := ""
			for line := range strings.Lines(stdout) {
				have += strings.Join(strings.Fields(line), " ") + "\n"
			}
			if code != console.ExitOK || have != c.stdout || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit status %d:\n%s%s\nwant\n%s%s", code, have, stderr, c.stdout, c.stderr)
			}
		})
	}
}

// TestExpiringCostsTwoLists: where there is no cleanup policy, the command lists both kinds of them
// once, asks for no permission and lists no other kind twice.
func TestExpiringCostsTwoLists(t *testing.T) {
	lists := map[string]int{}
	cluster := clusterOf(t)
	expectRun(t, cluster, scene{}, "expiring -A", console.ExitOK)
	for _, action := range cluster.actions() {
		if action.GetVerb() == "list" || action.GetResource().Resource == "selfsubjectaccessreviews" {
			lists[action.GetResource().Resource]++
		}
	}
	for _, kind := range []string{"cleanuppolicies", "clustercleanuppolicies", "configmaps", "deployments"} {
		if lists[kind] != 1 {
			t.Errorf("%s are listed %d times", kind, lists[kind])
		}
	}
	if lists["selfsubjectaccessreviews"]+lists["cleanupapprovals"] > 0 {
		t.Errorf("asked for %v", lists)
	}
}

// TestRunThatCannotBeJudged: the answer is partial where the API server fails, as for a kind that
// cannot be listed, and complete where the user may not list it.
func TestRunThatCannotBeJudged(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		code int
	}{
		"fails":     {apierrors.NewInternalError(errors.New("no conversion")), console.ExitBadNews},
		"too busy":  {apierrors.NewTooManyRequests("later", 1), console.ExitBadNews},
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")), console.ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, append(objects(t), attic(t, nil)...))
			for _, fake := range []*clienttesting.Fake{&cluster.objects.Fake, &cluster.metadata.Fake} {
				fake.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
					list, ok := action.(clienttesting.ListAction) // Those with a TTL label are listed.
					return ok && list.GetListRestrictions().Labels.Empty(), nil, test.err
				})
			}
			code, stdout, stderr, _ := executeIn(t, cluster, scene{}, words("expiring -n attic --trigger cleanup --source cleanup/attic/tonight")...)
			expectExit(t, "the command", code, test.code, stdout+stderr)
			expectPart(t, "stderr", stderr, "note: not known what a run deletes: cleanup/attic/tonight: ", true)
		})
	}
}
