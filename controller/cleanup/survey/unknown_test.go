package survey

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// serving has the API server serve a kind with a spec of these fields. Its profile knows the first
// version.
func serving(r cleanup.Resource, profile *expression.Profile, fields map[string]any) func(*world) {
	version := map[string]any{"name": r.Versions[0], "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": fields}}}}
	definition := expression.DefinitionOf(map[string]any{
		"spec":   map[string]any{"group": r.Group, "scope": "Namespaced", "versions": []any{version}, "names": map[string]any{"kind": r.Kind, "plural": r.Resource}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
	return func(w *world) {
		w.served = append(w.served, r)
		w.snapshot = platform.SnapshotOf([]*expression.Profile{profile}, []expression.Definition{definition})
	}
}

// A volume is mounted if anything that may exist mounts its claim. An unknown answer keeps it: in a
// list and right before the DELETE, under any operator.
func TestMountedOrUnknown(t *testing.T) {
	used := func(w *world) {
		w.add("deploymentconfigs", "prod", "db", map[string]any{"spec": map[string]any{"replicas": int64(0), "template": map[string]any{"spec": mounts("data")}}})
	}
	installed := resource("apps.openshift.io", "deploymentconfigs", "DeploymentConfig", true)
	workflows := resource("argoproj.io", "workflows", "Workflow", true)
	workflows.Versions, workflows.Listable = []string{"v1alpha1"}, []string{"v1alpha1"}
	claimOf := func(name string) map[string]any {
		volume := map[string]any{"persistentVolumeClaim": map[string]any{"claimName": name}}
		return map[string]any{"spec": map[string]any{"suspend": true, "templates": []any{map[string]any{"volumes": []any{volume}}}}}
	}
	flink := resource("flink.apache.org", "flinkdeployments", "FlinkDeployment", true)
	flink.Versions, flink.Listable = []string{"v1beta1"}, []string{"v1beta1"}
	misnamed := func(claim string) func(*world) { // Its profile says podTemplate.
		return func(w *world) {
			serving(flink, shipped("FlinkDeployment"), map[string]any{"type": "object", "properties": map[string]any{"pods": map[string]any{"x-kubernetes-preserve-unknown-fields": true}}})(w)
			w.add("flinkdeployments", "prod", "db", map[string]any{"spec": map[string]any{"pods": []any{map[string]any{"spec": mounts(claim)}}}})
		}
	}
	for name, c := range map[string]struct {
		edit func(*world)
		want bool // it is deleted
	}{
		"nothing mounts it": {func(*world) {}, true},
		"a Pod mounts it":   {func(w *world) { w.add("pods", "prod", "db-0", map[string]any{"spec": mounts("data")}) }, false},
		"a Pod that has finished mounted it": {func(w *world) {
			w.add("pods", "prod", "db-0", map[string]any{"spec": mounts("data"), "status": map[string]any{"phase": "Succeeded"}})
		}, true},
		"a workload that is scaled to zero": {func(w *world) { used(w); w.served = append(w.served, installed) }, false},
		"a suspended custom kind that names it": {func(w *world) {
			w.add("workflows", "prod", "train", claimOf("data"))
			w.served = append(w.served, workflows)
		}, false},
		"a custom kind that names another claim": {func(w *world) {
			w.add("workflows", "prod", "train", claimOf("other"))
			w.served = append(w.served, workflows)
		}, true},
		"a custom kind of that claim elsewhere": {func(w *world) {
			w.add("workflows", "dev", "train", claimOf("data"))
			w.served = append(w.served, workflows)
		}, true},
		"a custom kind with any fields":                              {serving(workflows, shipped("Workflow"), map[string]any{"x-kubernetes-preserve-unknown-fields": true}), true},
		"a custom kind that has not the named field":                 {serving(workflows, shipped("Workflow"), map[string]any{"type": "object", "properties": map[string]any{"volume": map[string]any{}}}), false},
		"a template that its kind lacks, and another field names it": {misnamed("data"), false},
		"a template that its kind lacks, and no field names it":      {misnamed("other"), true},
		"a custom kind of a silent group":                            {func(w *world) { w.silent = cleanup.SilentGroups{"argoproj.io"} }, false},
		"its kind is not installed":                                  {func(w *world) {}, true},
		"its API group does not answer":                              {func(w *world) { used(w); w.silent = cleanup.SilentGroups{"apps.openshift.io"} }, false},
		"its version is another one": {func(w *world) {
			other := installed
			other.Versions = []string{"v2"}
			w.served = append(w.served, other)
		}, false},
		"another API group does not answer": {func(w *world) { w.silent = cleanup.SilentGroups{"metrics.k8s.io"} }, true},
		"its kind cannot be listed": {func(w *world) {
			w.served = append(w.served, installed)
			w.fails["deploymentconfigs"] = apierrors.NewInternalError(errors.New("the conversion webhook failed"))
		}, false},
		"Pods cannot be listed": {func(w *world) {
			w.fails["pods"] = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
		}, false},
	} {
		for _, kind := range []string{"persistentvolumes", "persistentvolumeclaims"} {
			for _, condition := range []string{"!lookup.mounted", "!(lookup.mounted || false)"} {
				t.Run(fmt.Sprint(name, "/", kind, "/", condition), func(t *testing.T) {
					w := newWorld()
					w.snapshot = platform.SnapshotOf([]*expression.Profile{templates("apps.openshift.io", "deploymentconfigs", "DeploymentConfig"), shipped("Workflow")}, nil)
					c.edit(w)
					_, listed, live, err := w.survey(t, policyOf(t, v1alpha1.CleanupSpec{}, []string{kind}, condition))
					if err != nil || (len(listed) == 1) != c.want || (len(live) == 1) != c.want {
						t.Errorf("deletes %v, and after a live read %v, %v; want %v", listed, live, err, c.want)
					}
				})
			}
		}
	}
}

// What mounts a volume is not known where an API group has stopped to answer, or discovery fails,
// since the run began.
func TestDiscoveryFailsDuringARun(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want cleanup.Verdict
	}{
		"it answers":                        {nil, cleanup.Delete},
		"its API group does not answer":     {cleanup.SilentGroups{"apps.openshift.io"}, cleanup.Skip},
		"another API group does not answer": {cleanup.SilentGroups{"metrics.k8s.io"}, cleanup.Delete},
		"there is no answer":                {errors.New("connection refused"), cleanup.Skip},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s, listed, _, err := w.survey(t, policyOf(t, v1alpha1.CleanupSpec{}, []string{"persistentvolumeclaims"}, "!lookup.mounted"))
			if err != nil || len(listed) != 1 {
				t.Fatal(listed, err)
			}
			s.options.Served = func(context.Context) ([]cleanup.Resource, error) { return w.served, c.err }
			target := &s.policy.Targets(w.served)[0]
			decision, err := s.JudgeLive(t.Context(), target, w.objects["persistentvolumeclaims"][0], w, NewBudget(), here)
			if err != nil || decision.Verdict != c.want {
				t.Errorf("a live read decides %+v, %v", decision, err)
			}
		})
	}
}

// A volume whose claimRef names no claim is not an unmounted one. One without claimRef is.
func TestClaimOfAVolume(t *testing.T) {
	for claim, want := range map[any]bool{nil: true, "data": false, "": false} {
		w := newWorld()
		spec := map[string]any{}
		if claim != nil {
			spec["claimRef"] = map[string]any{"name": claim}
		}
		w.objects["persistentvolumes"][0].Object["spec"] = spec
		_, listed, _, err := w.survey(t, policyOf(t, v1alpha1.CleanupSpec{}, []string{"persistentvolumes"}, "!lookup.mounted"))
		if err != nil || (len(listed) == 1) != want {
			t.Errorf("claimRef %v: deletes %v, %v", claim, listed, err)
		}
	}
}

// Until all KindProfiles are known nothing is deleted: one of them may say what mounts a volume.
func TestKindProfilesAreNotKnown(t *testing.T) {
	w := newWorld()
	store, err := platform.New(nil)
	must(t, err)
	store.SetIncomplete(errors.New("KindProfiles are not known"))
	w.snapshot = store.Snapshot()
	p := policyOf(t, v1alpha1.CleanupSpec{}, []string{"persistentvolumeclaims"}, "!lookup.mounted")
	if _, listed, _, err := w.survey(t, p); err == nil || len(listed) > 0 {
		t.Errorf("deletes %v, %v", listed, err)
	}
	complete := newWorld() // The list was judged before that.
	s, listed, _, err := complete.survey(t, p)
	if err != nil || len(listed) != 1 {
		t.Fatal(listed, err)
	}
	if decision, err := s.JudgeLive(t.Context(), &cleanup.Target{Kind: "PersistentVolumeClaim", Namespaced: true}, complete.objects["persistentvolumeclaims"][0], w, NewBudget(), here); err == nil || decision.Verdict == cleanup.Delete {
		t.Errorf("a live read decides %+v, %v", decision, err)
	}
}

// A kind that cannot be listed is passed over and reported; the others are not. Nothing is deleted
// while the API server is at fault.
func TestOneKindCannotBeListed(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("conversion webhook failed"))
	for name, c := range map[string]struct {
		spec     v1alpha1.CleanupSpec
		fails    map[string]error
		want     []string
		unlisted string
		fatal    string
	}{
		"none":               {want: []string{"a", "b"}},
		"the first":          {fails: map[string]error{"configmaps": broken}, want: []string{"b"}, unlisted: "configmaps: Internal error"},
		"the last":           {fails: map[string]error{"secrets": broken}, want: []string{"a"}, unlisted: "secrets: Internal error"},
		"with two passes":    {spec: v1alpha1.CleanupSpec{MaxPercentage: new(int32(100))}, fails: map[string]error{"configmaps": broken}, want: []string{"b"}, unlisted: "configmaps: Internal error"},
		"its server is away": {fails: map[string]error{"configmaps": apierrors.NewServiceUnavailable("away")}, want: []string{"b"}, unlisted: "configmaps: away"},
		"all":                {fails: map[string]error{"configmaps": broken, "secrets": broken}, unlisted: "configmaps: Internal error", fatal: "listing configmaps: Internal error"},
		"forbidden":          {fails: map[string]error{"configmaps": apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))}, fatal: "listing configmaps: forbidden"},
		"the server is busy": {fails: map[string]error{"configmaps": apierrors.NewTooManyRequests("busy", 1)}, fatal: "listing configmaps: busy"},
		"no answer":          {fails: map[string]error{"configmaps": &url.Error{Op: "Get", URL: "x", Err: errors.New("connection refused")}}, fatal: "listing configmaps: Get"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.add("configmaps", "prod", "a", map[string]any{})
			w.add("secrets", "prod", "b", map[string]any{})
			w.fails = c.fails
			s, listed, _, err := w.survey(t, policyOf(t, c.spec, []string{"configmaps", "secrets"}))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if !strings.HasPrefix(text, c.fatal) || (text == "") != (c.fatal == "") || c.fatal == "" && !slices.Equal(listed, c.want) {
				t.Errorf("deletes %v, %q; want %v, %q", listed, text, c.want, c.fatal)
			}
			if got := strings.Join(s.Unlisted(), ", "); !strings.HasPrefix(got, c.unlisted) || (got == "") != (c.unlisted == "") {
				t.Errorf("unlisted %q, want %q", got, c.unlisted)
			}
		})
	}
}

// A policy that names a group that does not answer, or all, says so.
func TestSilentGroupsAreReported(t *testing.T) {
	w := newWorld()
	w.silent = cleanup.SilentGroups{"apps", "metrics.k8s.io"}
	s, _, _, err := w.survey(t, policyOf(t, v1alpha1.CleanupSpec{}, []string{"configmaps"}))
	if got := s.Unlisted(); err != nil || !slices.Equal(got, []string{"API group apps: no answer"}) {
		t.Errorf("unlisted %q, error %v; want API group apps alone", got, err)
	}
	p := policyOf(t, v1alpha1.CleanupSpec{}, []string{"configmaps"})
	p.Spec.MatchConstraints.ResourceRules[0].APIGroups[0] = "*"
	s, _, _, err = w.survey(t, p)
	if got := s.Unlisted(); err != nil || !slices.Equal(got, []string{"API group apps: no answer", "API group metrics.k8s.io: no answer"}) {
		t.Errorf("by a wildcard: %q, %v", got, err)
	}
}
