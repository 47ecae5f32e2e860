package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/permission"
)

// Every kind that can be listed, watched and deleted is watched, once, in the version that its
// group prefers.
func TestEveryKindIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := keep(t, func(e *cluster) {
			e.served = append(e.served,
				resources("apps/v1", resource("deployments", "Deployment"), resource("deployments/status", "Deployment"), resource("deployments/scale", "Scale")),
				resources("apps/v1beta1", resource("deployments", "Deployment"), resource("old", "Old")),
				resources("authentication.k8s.io/v1", resource("tokenreviews", "TokenReview", "create")),
				resources("metrics.k8s.io/v1beta1", resource("pods", "PodMetrics", "get", "list")),
				resources("events.k8s.io/v1", resource("events", "Event")),
				resources("project.openshift.io/v1", clusterWide(resource("projects", "Project"))),
				resources("odd.example.com/v1", resource("things", "Thing", "get", "list")),
				resources("odd.example.com/v1alpha1", resource("things", "Thing")),
			)
		}, func(o *LabelsOptions) { o.Alias = true })
		after(2 * time.Second)
		var want []string
		for _, name := range []string{"configmaps.v1", "secrets.v1", "nodes.v1", "deployments.v1", "old.v1beta1", "things.v1alpha1"} {
			want = append(want, name, name+"~")
		}
		e.expect(t, want...)
		e.feeds.RejudgeKinds(func(kind schema.GroupKind) bool { return kind.Kind == "Secret" })
		if len(e.judged) != 2 || !strings.HasSuffix(e.judged[0], ":*") {
			t.Errorf("judged again: %v", e.judged)
		}
		after(9 * time.Minute)
		if e.reviews > 3 || e.asked != 0 {
			t.Errorf("asked for rules %d times and for single permissions %d times in nine minutes: no kind is to be polled", e.reviews, e.asked)
		}
	})
}

// A custom kind comes with its definition and goes with it, whatever discovery still says.
func TestCustomKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groupResource, widget := widgets()
		e, l := keep(t, func(e *cluster) {
			service := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": "example.com", "version": "v1"}}}
			service.SetName("v1.example.com")
			service.SetLabels(map[string]string{automanaged: "true"})
			e.services.Put(service)
			e.served = append(e.served, resources("example.com/v1", resource("widgets", "Widget")))
		}, nil)
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1")
		for range 2 {
			e.edit(func() { e.custom[groupResource] = widget })
			l.Again()
			after(2 * time.Second)
			e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1", "widgets.v2")
			e.edit(func() { delete(e.custom, groupResource) })
			l.Again()
			after(2 * time.Second)
			e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1")
		}
		if fmt.Sprint(e.forgot) != "[widgets.v2 widgets.v2]" {
			t.Errorf("forgot %v", e.forgot)
		}
		// It is stored in another version from now on.
		e.edit(func() { e.custom[groupResource] = widget })
		l.Again()
		after(2 * time.Second)
		widget.Version = "v3"
		e.edit(func() { e.custom[groupResource] = widget })
		l.Again()
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1", "widgets.v3")
	})
}

// What becomes of dependents is the profile's word, whenever that comes: a feed that was made
// before goes by it too. Until the profiles are known nothing is watched, since what they orphan
// would be collected.
func TestPropagationOfLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groupResource, widget := widgets()
		e, l := keep(t, func(e *cluster) {
			e.custom[groupResource] = widget
			e.unprofiled = errors.New("not listed yet")
		}, nil)
		after(2 * time.Second)
		e.expect(t)
		e.edit(func() { e.unprofiled = nil })
		l.Again()
		for _, want := range []metav1.DeletionPropagation{"", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, ""} {
			e.edit(func() { e.propagation[widget.GroupKind()] = want })
			l.Again()
			after(2 * time.Second)
			e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1", "widgets.v2")
			if got := e.asks["widgets.v2"]; got != want {
				t.Errorf("deletes with propagation %q, want %q", got, want)
			}
		}
		if fmt.Sprint(e.forgot) != "[widgets.v2 widgets.v2 widgets.v2]" {
			t.Errorf("forgot %v, want what the other feeds of the one kind tracked", e.forgot)
		}
	})
}

// An aggregated API that does not answer for a moment has not lost its kinds; one that is gone has.
func TestAggregatedAPIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := keep(t, func(e *cluster) {
			e.served = append(e.served, resources("wardle.example.com/v1", resource("flunders", "Flunder")))
		}, nil)
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1", "flunders.v1")
		service := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": "wardle.example.com", "version": "v1", "service": map[string]any{"namespace": "wardle", "name": "api"}}}}
		service.SetName("v1.wardle.example.com")
		e.edit(func() {
			e.served = e.served[:1]
			e.failed = map[schema.GroupVersion]error{{Group: "wardle.example.com", Version: "v1"}: errors.New("no answer")}
		})
		e.services.Put(service)
		after(time.Minute)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1", "flunders.v1")
		e.edit(func() { e.failed = nil })
		e.services.Remove("v1.wardle.example.com")
		after(time.Minute)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1")
		e.edit(func() { e.down = errors.New("no answer at all") })
		e.services.Put(service)
		after(time.Minute)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1")
		e.edit(func() {
			e.down = nil
			e.served = append(e.served, resources("wardle.example.com/v1", resource("flunders", "Flunder")))
		})
		after(20 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1", "flunders.v1")
		e.edit(func() {
			if !e.aggregated["flunders.v1"] || e.aggregated["configmaps.v1"] {
				t.Errorf("aggregated: %v, want flunders alone", e.aggregated)
			}
		})
	})
}

// role and binding are what tells that permissions have changed.
func clusterRole(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetName(name)
	return object
}

func binding(namespace, name, role, account string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"roleRef":  map[string]any{"kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "curfew-system", "name": account}},
	}}
	object.SetName(name)
	object.SetNamespace(namespace)
	return object
}

// Changed permissions are noticed by their roles, and the role of another user makes Curfew ask
// nothing.
func TestPermissionsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := keep(t, func(e *cluster) {
			e.rules[permission.Nowhere] = rule("", "configmaps")
			e.bindings.Put(binding("a", "ours", "curfew-labels", "curfew-controller"))
			e.bindings.Put(binding("b", "theirs", "others", "another-account"))
			e.roles.Put(clusterRole("curfew-labels"))
			e.roles.Put(clusterRole("others"))
		}, nil)
		after(30 * time.Second)
		e.expect(t, "configmaps.v1")
		if got := count(t, l.source.Skipped); got != 2 || value(t, l.watched) != 1 {
			t.Errorf("%d kinds are said to be skipped and %v to be watched, want 2 and 1", got, value(t, l.watched))
		}
		i, reviews := len(e.lines), e.reviews
		e.roles.Put(clusterRole("others"))
		e.bindings.Put(binding("b", "theirs", "yet-others", "another-account"))
		after(time.Minute)
		if e.reviews != reviews || len(e.lines) != i {
			t.Errorf("the role of another account made Curfew ask %d times and log %v, want neither", e.reviews-reviews, e.lines[i:])
		}
		e.edit(func() { e.rules[permission.Nowhere] = everything() })
		e.roles.Put(clusterRole("curfew-labels"))
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1")
		if got := count(t, l.source.Skipped); got != 0 {
			t.Errorf("%d kinds are still said to be skipped", got)
		}
		e.edit(func() { e.rules[permission.Nowhere] = rule("", "secrets") })
		e.roles.Put(clusterRole("curfew-labels"))
		after(2 * time.Second)
		e.expect(t, "secrets.v1")
		if fmt.Sprint(e.forgot) != "[configmaps.v1 nodes.v1]" && fmt.Sprint(e.forgot) != "[nodes.v1 configmaps.v1]" {
			t.Errorf("forgot %v: what may not be deleted is not to be tried for ever", e.forgot)
		}
		after(time.Hour)
		lines := e.lines[i:]
		if len(lines) != 2 {
			t.Errorf("each change is said once, in one line, not:\n%s", strings.Join(lines, "\n"))
		}
	})
}

// OnChange reports changes of the places, and nothing else.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		e, l := keep(t, func(e *cluster) {
			e.rules[permission.Nowhere] = rule("", "secrets", "configmaps")
			e.rules["named"] = rule("", "nodes")
			e.served = append(e.served, resources("apps/v1", resource("deployments", "Deployment")))
		}, func(o *LabelsOptions) { o.Namespaces = []string{"named"} })
		l.OnChange(func() { calls++ })
		if got, known := l.Places(); known {
			t.Errorf("got %v before anything was asked", got)
		}
		expect := func(times int, want string) {
			t.Helper()
			after(2 * time.Second)
			var got []string
			places, known := l.Places()
			for _, place := range places {
				if slices.Contains(place.Namespaces, metav1.NamespaceAll) {
					got = append(got, place.GroupResource().String())
				}
			}
			if fmt.Sprint(got) != want || !known || calls != times {
				t.Errorf("got %v (%t) and %d calls, want %s and %d", got, known, calls, want, times)
			}
		}
		expect(1, "[configmaps secrets]")
		e.edit(func() { e.rules["named"] = rule("", "nodes", "pods") })
		l.Again()
		expect(1, "[configmaps secrets]")
		e.edit(func() { e.rules[permission.Nowhere] = everything() })
		l.Again()
		expect(2, "[configmaps nodes secrets deployments.apps]")
		e.edit(func() { e.rules[permission.Nowhere], e.rules["named"] = nil, nil })
		l.Again()
		expect(3, "[]")
	})
}

// Where a kind may be deleted in some namespaces only, it is watched there, and everywhere once
// that is granted.
func TestPermissionsInNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := keep(t, func(e *cluster) {
			e.rules[permission.Nowhere] = rule("", "configmaps")
			e.rules["team"] = rule("", "secrets", "nodes")
			e.rules["named"] = rule("", "secrets")
			e.rules["unknown"] = everything() // no event reports it
		}, func(o *LabelsOptions) { o.Namespaces = []string{"named"} })
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1@named")
		e.bindings.Put(binding("team", "curfew", "whatever", "curfew-controller"))
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1@named", "secrets.v1@team")
		e.feeds.RejudgeNamespace("team")
		e.edit(func() { e.rules[permission.Nowhere] = everything() })
		e.roles.Put(clusterRole("whatever"))
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "secrets.v1", "nodes.v1")
		e.edit(func() { e.rules[permission.Nowhere] = nil })
		e.roles.Put(clusterRole("whatever"))
		after(2 * time.Second)
		e.expect(t, "secrets.v1@named", "secrets.v1@team")
		e.bindings.Remove("curfew")
		after(2 * time.Second)
		e.expect(t, "secrets.v1@named")
	})
}

// An authorizer that cannot list its rules is asked kind by kind, when something has changed and
// not before.
func TestAuthorizerThatCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := keep(t, func(e *cluster) {
			e.incomplete = true
			e.rules[permission.Nowhere] = rule("", "secrets")
		}, nil)
		after(9 * time.Minute)
		e.expect(t, "secrets.v1")
		if e.asked > 9 {
			t.Errorf("asked %d times in nine minutes for three kinds", e.asked)
		}
	})
}

// A feed that is refused has permissions looked at again: no event may have told.
func TestRefusalIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := keep(t, nil, nil)
		after(30 * time.Second)
		e.edit(func() { e.rules[permission.Nowhere] = rule("", "configmaps") })
		e.refuse["secrets.v1"]()
		after(2 * time.Second)
		e.expect(t, "configmaps.v1")
	})
}

// One kind that cannot be watched delays no other, and is taken up once it can.
func TestBrokenFeedDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := keep(t, func(e *cluster) { e.broken["secrets"] = true }, nil)
		after(2 * time.Second)
		e.expect(t, "configmaps.v1", "nodes.v1")
		if value(t, l.source.Skipped.WithLabelValues("", "Secret", "error")) != 1 {
			t.Error("the metric does not say that Secrets are skipped")
		}
		e.edit(func() { e.broken = map[string]bool{} })
		after(20 * time.Second)
		e.expect(t, "configmaps.v1", "nodes.v1", "secrets.v1")
		if got := count(t, l.source.Skipped); got != 0 {
			t.Errorf("%d kinds are still said to be skipped", got)
		}
	})
}
