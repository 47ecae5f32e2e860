package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

const policyYAML = "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: posted}, spec: {defaults: {ttl: {value: 3h}}}}\n---\n"

func policySaying(ttl string) *v1alpha1.LifecyclePolicy {
	out := &v1alpha1.LifecyclePolicy{}
	out.Name = "live"
	value := v1alpha1.TTL(ttl)
	out.Spec.Defaults = &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{Value: &value}}
	return out
}

// TestPoliciesOfTheClusterAreFollowed: what changes in the cluster holds for the next request, and
// never for an offline one.
func TestPoliciesOfTheClusterAreFollowed(t *testing.T) {
	builtin, err := comesWith()
	must(t, err)
	w := &world{}
	router := newRouter(t, w)
	job := strings.Replace(jobYAML, "namespace: ci", "namespace: other", 1)
	ask := func(path, body string) string {
		t.Helper()
		recorder := call{path: path, body: body, token: "ann"}.do(router)
		if recorder.Code != http.StatusOK {
			t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
		}
		return recorder.Body.String()
	}
	given := func(value string) string { return fmt.Sprintf(`"value":%q`, value) }
	if body := ask("/v1/default", job); strings.Contains(body, `"source":"policy/`) {
		t.Errorf("before there is a policy: %s", body)
	}
	for _, ttl := range []string{"1h", "2h"} {
		if errs := builtin.SetPolicy(policySaying(ttl)); len(errs) > 0 {
			t.Fatal(errs)
		}
		w.snapshot = builtin.Snapshot()
		builtin.PutPolicy("live", nil)
		seconds := map[string]string{"1h": "3600 (1h)", "2h": "7200 (2h)"}[ttl]
		if body := ask("/v1/default", job); !strings.Contains(body, given(seconds)) || !strings.Contains(body, `"source":"policy/live"`) {
			t.Errorf("a policy of %s: %s", ttl, body)
		}
		if body := ask("/v1/default?offline=true", job); strings.Contains(body, `"source":"policy/`) {
			t.Errorf("offline the cluster spoke: %s", body)
		}
	}
	if body := ask("/v1/default?offline=true", policyYAML+job); !strings.Contains(body, given("10800 (3h)")) {
		t.Errorf("offline a posted policy did not speak: %s", body)
	}
	if body := ask("/v1/default", policyYAML+job); !strings.Contains(body, `"source":"policy/live"`) {
		t.Errorf("a live policy gave way to one of another name: %s", body)
	}
}

func TestPostedRuntimesProfilesAndPolicies(t *testing.T) {
	router := newRouter(t, &world{})
	train := "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t, namespace: ci, annotations: {curfew.dev/ttl-after-finished: 1h}}, spec: {runtimeRef: {name: torch}}}\n---\n"
	torch := "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: ClusterTrainingRuntime, metadata: {name: torch, annotations: {curfew.dev/ttl-after-finished: 3d}}}\n---\n"
	for name, test := range map[string]struct{ path, body, want, token string }{
		"a runtime of the cluster":             {"/v1/validate", train, `runtime \"torch\" sets 2d`, "ann"},
		"a posted runtime before it":           {"/v1/validate", train + torch, `runtime \"torch\" sets 3d`, "ann"},
		"a posted runtime, offline":            {"/v1/validate?offline=true", torch + train, `runtime \"torch\" sets 3d`, ""},
		"an unknown runtime says nothing":      {"/v1/validate?offline=true", train, `"findings":[]`, ""},
		"a policy that does not compile":       {"/v1/validate?offline=true", strings.Replace(policyYAML, "value: 3h", "expression: objekt", 1), `line 1, column 1: undeclared reference to 'objekt'`, ""},
		"a policy that the schema refuses":     {"/v1/validate?offline=true", strings.Replace(policyYAML, "value: 3h", "valve: 3h", 1), `unknown field \"spec.defaults.ttl.valve\"`, ""},
		"a label that is expired at this time": {"/v1/validate?offline=true", "{apiVersion: v1, kind: ConfigMap, metadata: {labels: {curfew.dev/ttl: 2026-12-24}}}", `2026-12-24 expired at 2026-12-24T00:00:00Z, before the ConfigMap was created`, ""},
		"a label that has seconds left":        {"/v1/validate?offline=true", "{apiVersion: v1, kind: ConfigMap, metadata: {labels: {curfew.dev/ttl: 2026-12-24T120001Z}}}", `"findings":[]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := call{path: test.path, body: test.body, token: test.token}.do(router)
			if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), test.want) {
				t.Errorf("status %d, %q is not in\n%s", recorder.Code, test.want, recorder.Body)
			}
			described(t, recorder, "/v1/validate")
		})
	}
	const policy = "{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: p%d}, spec: {schedule: '@hourly', " +
		"matchConstraints: {resourceRules: [{apiGroups: [''], resources: [pods]}]}, conditions: [{name: a, expression: lookup.dangling}]}}\n---\n"
	cleanups := call{path: "/v1/validate?offline=true", body: fmt.Sprintf(policy, 0)}.do(router)
	if want := "lookup.dangling is for horizontalpodautoscalers.autoscaling"; !strings.Contains(cleanups.Body.String(), want) {
		t.Errorf("status %d, %q is not in\n%s", cleanups.Code, want, cleanups.Body)
	}
	var many strings.Builder
	for i := range maxPlatform + 1 {
		if i%2 == 0 {
			fmt.Fprintf(&many, policy, i)
			continue
		}
		many.WriteString(strings.Replace(policyYAML, "name: posted", fmt.Sprintf("name: p%d", i), 1))
	}
	recorder := call{path: "/v1/validate?offline=true", body: many.String()}.do(router)
	if recorder.Code != http.StatusRequestEntityTooLarge || !strings.Contains(recorder.Body.String(), "101 policies and profiles are too many: split it, 100 is the most") {
		t.Errorf("status %d: %s", recorder.Code, recorder.Body)
	}
	described(t, recorder, "/v1/validate")
}

func (w *world) Snapshot(context.Context) (*platform.Snapshot, error) {
	if w.snapshot != nil {
		return w.snapshot, nil
	}
	store, err := comesWith()
	return store.Snapshot(), err
}
