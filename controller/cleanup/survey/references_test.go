package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

// old is the metadata of an object that lookup.referenced decides about.
func old() map[string]any {
	return map[string]any{"metadata": map[string]any{"creationTimestamp": "2026-01-01T00:00:00Z"}}
}

// unreferenced is a world with a ConfigMap, a Secret and a ServiceAccount that nothing refers to.
func unreferenced() *world {
	w := newWorld()
	w.served = append(w.served, resource("", "serviceaccounts", "ServiceAccount", true))
	for _, resource := range []string{"configmaps", "secrets", "serviceaccounts"} {
		w.add(resource, "prod", "settings", old())
	}
	return w
}

// unused is a policy for such objects.
func unused(t *testing.T, condition string, resources ...string) *cleanup.Policy {
	t.Helper()
	return policyIn(t, []string{""}, v1alpha1.CleanupSpec{}, resources, condition)
}

// refers adds an object that refers to the three.
func (w *world) refers(resource, namespace string) {
	w.add(resource, namespace, "web", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"serviceAccountName": "settings", "imagePullSecrets": []any{map[string]any{"name": "settings"}},
		"volumes": []any{map[string]any{"name": "v", "configMap": map[string]any{"name": "settings"}}},
	}}}})
}

// An object is referenced if anything that may exist names it. An unknown answer keeps it: in a
// list and right before the DELETE, under any operator.
func TestReferencedOrUnknown(t *testing.T) {
	runners := resource("example.com", "runners", "Runner", true)
	for name, c := range map[string]struct {
		edit func(*world)
		want bool // they are deleted
	}{
		"nothing refers to it":         {func(*world) {}, true},
		"a workload":                   {func(w *world) { w.refers("deployments", "prod") }, false},
		"a workload elsewhere":         {func(w *world) { w.refers("deployments", "dev") }, true},
		"a kind without a profile":     {func(w *world) { w.refers("runners", "prod"); w.served = append(w.served, runners) }, false},
		"a kind that is not installed": {func(w *world) { w.refers("runners", "prod") }, true},
		"a kind that cannot be deleted": {func(w *world) {
			w.refers("runners", "prod")
			runners := runners
			runners.Undeletable = true
			w.served = append(w.served, runners)
		}, false},
		"a kind that cannot be listed": {func(w *world) {
			w.served = append(w.served, runners)
			w.fails["runners"] = apierrors.NewInternalError(errors.New("the conversion webhook failed"))
		}, false},
		"a kind that may not be listed": {func(w *world) {
			w.fails["deployments"] = apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no"))
		}, false},
		"a kind that has no objects": {func(w *world) {
			reviews := resource("authorization.example.com", "reviews", "Review", false)
			reviews.Listable = nil
			w.served = append(w.served, reviews)
			w.fails["reviews"] = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "reviews"}, "list")
		}, true},
		"Events and Leases": {func(w *world) {
			w.served = append(w.served, resource("", "events", "Event", true), resource("coordination.k8s.io", "leases", "Lease", true))
			w.refers("events", "prod")
			w.refers("leases", "prod")
		}, true},
		"a cleanup policy": {func(w *world) {
			w.served = append(w.served, resource("curfew.dev", "cleanuppolicies", "CleanupPolicy", true))
			w.add("cleanuppolicies", "prod", "p", map[string]any{"spec": map[string]any{"conditions": "settings"}})
		}, false},
		"reports and approvals": {func(w *world) {
			for _, name := range []string{"cleanupreports", "clustercleanupreports", "cleanupapprovals", "clustercleanupapprovals"} {
				w.served = append(w.served, resource("curfew.dev", name, "Any", true))
				w.refers(name, "prod")
			}
		}, true},
		"its API group does not answer":             {func(w *world) { w.silent = cleanup.SilentGroups{"example.com"} }, false},
		"only groups without references are silent": {func(w *world) { w.silent = cleanup.SilentGroups{"metrics.k8s.io"} }, true},
	} {
		for _, kind := range []string{"configmaps", "secrets", "serviceaccounts"} {
			for _, condition := range []string{"!lookup.referenced", "!(lookup.referenced || false)"} {
				t.Run(fmt.Sprint(name, "/", kind, "/", condition), func(t *testing.T) {
					w := unreferenced()
					c.edit(w)
					_, listed, live, err := w.survey(t, unused(t, condition, kind))
					if err != nil || (len(listed) == 1) != c.want || (len(live) == 1) != c.want {
						t.Errorf("deletes %v, and after a live read %v, %v; want %v", listed, live, err, c.want)
					}
				})
			}
		}
	}
}

// A CustomResourceDefinition without conversion shows an object in each version with the fields of
// that version alone. A version that cannot be listed shows nothing.
func TestReferenceInAnotherVersion(t *testing.T) {
	for name, c := range map[string]struct {
		listable []string
		want     string
	}{
		"the preferred one":      {[]string{"v1alpha1", "v1"}, "[]"},
		"another one":            {[]string{"v1", "v1alpha1"}, "[]"},
		"one that is not listed": {[]string{"v1"}, "[settings]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := unreferenced()
			w.pruned = map[string]bool{"runners/v1": true}
			w.fails["runners/v2"] = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "runners"}, "list")
			runners := resource("example.com", "runners", "Runner", true)
			runners.Versions, runners.Listable = []string{"v2", "v1", "v1alpha1"}, c.listable
			w.served = append(w.served, runners)
			w.refers("runners", "prod")
			_, listed, live, err := w.survey(t, unused(t, "!lookup.referenced", "configmaps"))
			if got := fmt.Sprint(listed); err != nil || got != c.want || fmt.Sprint(live) != c.want {
				t.Errorf("deletes %s, and after a live read %v, %v; want %s", got, live, err, c.want)
			}
		})
	}
}

// A kind that was installed since another run asked what is served may use what matches.
func TestKindInstalledAMomentAgo(t *testing.T) {
	w := unreferenced()
	options := w.options()
	before := slices.Clone(w.served)
	options.Served, options.Discover = func(context.Context) ([]cleanup.Resource, error) { return before, nil }, options.Served
	w.served = append(w.served, resource("example.com", "runners", "Runner", true))
	w.refers("runners", "prod")
	err := open(t, unused(t, "!lookup.referenced", "configmaps"), w, options).Choose(t.Context(), func(_ *cleanup.Target, object *unstructured.Unstructured, _ cleanup.Decision) error {
		t.Errorf("deletes %s, which an object of the new kind uses", object.GetName())
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Kubernetes creates these in each namespace, and Pods use them without a name. They are kept even
// from a policy that spells their names out.
func TestNamesOfEachNamespace(t *testing.T) {
	for resource, name := range map[string]string{"serviceaccounts": "default", "configmaps": "kube-root-ca.crt"} {
		w := unreferenced()
		w.add(resource, "prod", name, old())
		object := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy", Generation: 1}}
		object.Spec.Schedule = "@daily"
		object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name, "settings"}}}
		object.Spec.Conditions = []v1alpha1.CleanupCondition{{Name: "c", Expression: "!lookup.referenced"}}
		p, errs := cleanup.Compile(expression.NewCompiler(100), object)
		must(t, errs.ToAggregate())
		_, listed, live, err := w.survey(t, p)
		if fmt.Sprint(listed, live) != "[settings] [settings]" || err != nil {
			t.Errorf("deletes %v, and after a live read %v, %v", listed, live, err)
		}
	}
}

// traced calls request before each request takes effect.
type traced struct {
	*world
	request func(resource string, whole bool)
}

func (r traced) List(ctx context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
	r.request(resource.Resource, whole)
	return r.world.List(ctx, resource, namespace, whole, options)
}

func (r traced) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, whole bool) (*unstructured.Unstructured, error) {
	r.request(resource.Resource, whole)
	return r.world.Get(ctx, resource, namespace, name, whole)
}

// confirm calls deleted for each object that a survey chooses and a live read confirms.
func confirm(t *testing.T, reader traced, p *cleanup.Policy, deleted func(resource string)) {
	t.Helper()
	s := open(t, p, reader, reader.options())
	err := s.Choose(t.Context(), func(target *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict != cleanup.Delete {
			return nil
		}
		verdict, err := s.confirm(t, reader.world, target, object.GetNamespace(), object.GetName())
		if verdict == cleanup.Delete {
			deleted(target.Resource)
		}
		return err
	})
	must(t, err)
}

// An object that refers to others is created right before each request of a run takes effect. They
// are deleted only if the kind of that object was listed before.
func TestReferrerIsCreatedAtEveryRequest(t *testing.T) {
	p := unused(t, "!lookup.referenced", "configmaps", "secrets", "serviceaccounts")
	kept := 0
	for i := 1; ; i++ {
		w, requests, listed, deleted := unreferenced(), 0, 0, 0
		reader := traced{w, func(resource string, _ bool) {
			if requests++; requests == i {
				w.refers("deployments", "prod")
			}
			if resource == "deployments" {
				listed = requests
			}
		}}
		confirm(t, reader, p, func(resource string) {
			if deleted++; requests >= i && listed >= i {
				t.Errorf("WRONG DELETE of %s: referenced from request %d on, and request %d listed what refers to it", resource, i, listed)
			}
		})
		if requests < i {
			if deleted != 3 || kept < 5 {
				t.Errorf("without a reference %d of 3 are deleted; with one, all were kept %d times", deleted, kept)
			}
			return
		}
		if deleted == 0 {
			kept++
		}
	}
}

// The data of Secrets is never read.
func TestSecretsAreReadAsMetadata(t *testing.T) {
	secrets, others, deleted := 0, 0, 0
	reader := traced{unreferenced(), func(resource string, whole bool) {
		switch {
		case resource == "secrets" && whole:
			t.Error("a Secret was read with its data")
		case resource == "secrets":
			secrets++
		case whole:
			others++
		}
	}}
	confirm(t, reader, unused(t, "!lookup.referenced", "secrets"), func(string) { deleted++ })
	if deleted != 1 || secrets == 0 || others == 0 {
		t.Errorf("deletes %d with %d reads of Secrets and %d of others", deleted, secrets, others)
	}
}

// A Secret of a type that a program uses is kept, whatever its name.
func TestTypesOfSecrets(t *testing.T) {
	for name, want := range map[string]int{"Opaque": 1, "kubernetes.io/tls": 1, "istio.io/ca-root": 0, "helm.sh/release.v1": 0, "kubernetes.io/service-account-token": 0} {
		w, deleted := unreferenced(), 0
		w.objects["secrets"][0].Object["type"] = name
		confirm(t, traced{w, func(string, bool) {}}, unused(t, "!lookup.referenced", "secrets"), func(string) { deleted++ })
		if deleted != want {
			t.Errorf("%d Secrets of type %s are deleted, want %d", deleted, name, want)
		}
	}
}

// However many objects are judged live, what refers to them is listed every ten seconds.
func TestLiveReferencesAreShared(t *testing.T) {
	w, clock := unreferenced(), clocktesting.NewFakeClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	w.listed = map[string]int{}
	p, options := unused(t, "!lookup.referenced", "configmaps"), w.options()
	options.Clock = clock
	s, target := open(t, p, w, options), &p.Targets(w.served)[0]
	judge := func(want cleanup.Verdict) {
		t.Helper()
		if got, err := s.confirm(t, w, target, "prod", "settings"); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	for range 200 { // It takes 20 seconds.
		judge(cleanup.Delete)
		clock.Step(100 * time.Millisecond)
	}
	if got := fmt.Sprint(w.listed); got != "map[configmaps:4 deployments:2 persistentvolumeclaims:2 persistentvolumes:2 secrets:2 serviceaccounts:2]" {
		t.Errorf("lists of 200 judgements in 20 seconds: %s", got)
	}
	w.refers("deployments", "prod")
	judge(cleanup.NoMatch)
	w.objects["deployments"] = nil
	clock.Step(referencesFor)
	judge(cleanup.Delete)
	runners := resource("example.com", "runners", "Runner", true)
	w.served = append(w.served, runners) // A new kind counts at once.
	w.refers("runners", "prod")
	judge(cleanup.NoMatch)
}

// An object that is newer than the list of what refers to it is kept.
func TestObjectIsNewerThanItsReferences(t *testing.T) {
	w := unreferenced()
	reader := traced{w, func(resource string, _ bool) {
		if resource == "deployments" && len(w.objects["configmaps"]) == 1 {
			w.add("configmaps", "prod", "later", old())
		}
	}}
	s := open(t, unused(t, "!lookup.referenced", "configmaps"), reader, w.options())
	for _, want := range []string{"[settings]", "[settings]"} { // The second pass sees it, and the references of the first.
		var deleted []string
		err := s.Choose(t.Context(), func(_ *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
			if decision.Verdict == cleanup.Delete {
				deleted = append(deleted, object.GetName())
			}
			return nil
		})
		if err != nil || fmt.Sprint(deleted) != want {
			t.Errorf("deletes %v, %v; want %s", deleted, err, want)
		}
	}
	if got := s.Skipped[cleanup.SkipEvaluation]; got == nil || got.Count != 1 {
		t.Errorf("skipped %+v, want the new object", got)
	}
}

// However many candidates there are, a run lists the kinds that may refer to them once, and once
// more for all that it reads live within ten seconds: no more than twice a page of candidates.
func TestReferrersAreListedTwice(t *testing.T) {
	w := unreferenced()
	w.listed = map[string]int{}
	for i := range 1200 {
		w.add("configmaps", "prod", fmt.Sprint("settings-", i), old())
	}
	w.refers("deployments", "prod")
	options := w.options()
	options.Clock = clocktesting.NewFakePassiveClock(options.Now)
	s := open(t, unused(t, "!lookup.referenced", "configmaps"), w, options)
	check := func(lists, judged int) {
		t.Helper()
		for name, times := range w.listed {
			want := lists
			if name == "configmaps" { // as candidates, as referrers, and to judge them
				want += lists + judged
			}
			if times != want {
				t.Errorf("%s are listed %d times, want %d", name, times, want)
			}
		}
		if len(w.listed) != len(w.served) {
			t.Errorf("listed %v, want all that is served", w.listed)
		}
	}
	deleted, confirmed := 0, 0
	err := s.Choose(t.Context(), func(target *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict != cleanup.Delete {
			return nil
		}
		if deleted++; deleted == 1 {
			check(1, 1)
		}
		again, err := s.JudgeLive(t.Context(), target, object, w, NewBudget(), here)
		if again.Verdict == cleanup.Delete {
			confirmed++
		}
		return err
	})
	if err != nil || deleted != 1200 || confirmed != 1200 {
		t.Fatalf("%d are chosen and %d deleted: %v", deleted, confirmed, err)
	}
	check(2, 1)
}

var must = builders.Must
