package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

func podTally(namespace, name string, generation, succeeded int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "curfew.dev/v1alpha1", "kind": "PodTally",
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": namespace + "/" + name, "generation": generation},
		"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "build"}}},
		"status":   map[string]any{"succeeded": succeeded},
	}}
}

func TestFollowTallies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tallies := newSource()
		tallies.Put(podTally("ci", "a", 1, 0))
		p := platformFrom(t, map[string]Source{v1alpha1.PodTallies: tallies})
		var changed []string
		p.Tallies.OnChange(func(namespace string) { changed = append(changed, namespace) })
		counts := func(namespace string, want bool) {
			t.Helper()
			if got, err := p.Tallies.Counts(namespace); err != nil || got != want {
				t.Errorf("namespace %s counts: %v, %v; want %v", namespace, got, err, want)
			}
		}
		if _, err := p.Tallies.Counts("ci"); err == nil {
			t.Error("known before anything was listed")
		}
		start(t, p)
		synctest.Wait()
		counts("ci", true)
		counts("other", false)
		for _, step := range []struct {
			name   string
			change func()
			want   []string
			counts bool
			all    int
		}{
			{"listed", func() {}, []string{"ci"}, true, 1},
			{"counted", func() { tallies.Put(podTally("ci", "a", 1, 7)) }, nil, true, 1},
			{"changed", func() { tallies.Put(podTally("ci", "a", 2, 7)) }, []string{"ci"}, true, 1},
			{"a second", func() { tallies.Put(podTally("ci", "b", 1, 0)) }, []string{"ci"}, true, 2},
			{"another namespace", func() { tallies.Put(podTally("dev", "c", 1, 0)) }, []string{"dev"}, true, 2},
			{"being deleted", func() {
				deleting := podTally("ci", "a", 2, 7)
				deleting.SetDeletionTimestamp(&metav1.Time{Time: noon})
				tallies.Put(deleting)
				tallies.Remove("b")
			}, []string{"ci", "ci"}, false, 1},
			{"deleted", func() { tallies.Remove("a") }, []string{"ci"}, false, 0},
		} {
			step.change()
			after(time.Second)
			if !slices.Equal(changed, step.want) {
				t.Errorf("%s: told of %q, want %q", step.name, changed, step.want)
			}
			changed = nil
			counts("ci", step.counts)
			if all, _ := p.Tallies.In("ci"); len(all) != step.all {
				t.Errorf("%s: %v, want %d", step.name, all, step.all)
			}
		}
		if got := p.Tallies.Namespaces(); !slices.Equal(got, []string{"dev"}) {
			t.Errorf("namespaces %q", got)
		}
	})
}

// The label by which the API server sends Pods follows the tallies. It stays until they are known.
func TestStampTallied(t *testing.T) {
	both := map[string]string{wellknown.LabelPodsInUse: "true"}
	unknown := errors.New("not listed yet")
	for name, test := range map[string]struct {
		labels map[string]string
		counts bool
		err    error
		want   string
		fails  bool
	}{
		"created":           {counts: true, want: "true"},
		"in step":           {labels: both, counts: true, want: "true"},
		"deleted":           {labels: both},
		"none":              {},
		"unknown":           {labels: both, err: unknown, want: "true", fails: true},
		"unknown, unneeded": {err: unknown},
	} {
		t.Run(name, func(t *testing.T) {
			n, api := stamped(t, namespace(nil, test.labels))
			n.tallied = func(string) (bool, error) { return test.counts, test.err }
			n.observe(seen(t, api))
			if err := n.stamp(t.Context(), "ci"); (err != nil) != test.fails {
				t.Errorf("error %v: it is retried if and only if there is one", err)
			}
			if got := seen(t, api).Labels[wellknown.LabelPodsInUse]; got != test.want {
				t.Errorf("label %q, want %q", got, test.want)
			}
		})
	}
}

// A tally that is created or deleted has its namespace labelled soon, without a change of that.
func TestTalliesHaveNamespacesStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tallies := newSource()
		p := platformFrom(t, map[string]Source{v1alpha1.PodTallies: tallies})
		n, api := stamped(t, namespace(nil, nil))
		n.WriteStamps(api, n.serverTime)
		n.StampTallied(p.Tallies)
		start(t, p)
		running(t, n.Run)
		for _, want := range []string{"true", ""} {
			n.observe(seen(t, api))
			after(time.Second)
			if want == "" {
				tallies.Remove("a")
			} else {
				tallies.Put(podTally("ci", "a", 1, 0))
			}
			after(time.Second)
			meta := NamespaceMeta()
			if err := api.Get(t.Context(), client.ObjectKey{Name: "ci"}, meta); err != nil || meta.Labels[wellknown.LabelPodsInUse] != want {
				t.Errorf("labels %v, %v; want %q", meta.Labels, err, want)
			}
		}
	})
}

// Right before a Pod is deleted, the PodTally that counted it is found although the watch has not
// shown it yet: its ttlAfterCounted may be never.
func TestLiveCounterReadsUnseenTallies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := platformFrom(t, map[string]Source{v1alpha1.PodTallies: newSource()})
		start(t, p)
		synctest.Wait()
		object := podTally("ci", "b", 1, 0)
		_ = unstructured.SetNestedField(object.Object, "never", "spec", "ttlAfterCounted")
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies): "PodTallyList"}, podTally("ci", "a", 1, 0), object)
		for by, want := range map[string]bool{"ci/b": true, "ci/gone": false} {
			pod := policy.FactsOfObject(policy.PodProfile, map[string]any{"metadata": map[string]any{"namespace": "ci", "name": "p", "annotations": map[string]any{wellknown.AnnotationCountedBy: by}}})
			counter, err := p.Tallies.LiveCounter(t.Context(), client, pod)
			if err != nil || (counter != nil) != want || want && !counter.TTL.TTL.Never {
				t.Errorf("counted by %s: %+v, %v", by, counter, err)
			}
		}
	})
}

// The author of a Pod writes its counted-by. A hundred Pods with made-up UIDs that are
// judged at the same time cost one list (S9).
func TestForgedCountersShareAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := platformFrom(t, map[string]Source{v1alpha1.PodTallies: newSource()})
		start(t, p)
		synctest.Wait()
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies): "PodTallyList"}, podTally("ci", "a", 1, 0))
		var lists atomic.Int64
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists.Add(1)
			return false, nil, nil
		})
		first := make(chan struct{})
		listed := p.Tallies.listed
		go func() { // All ask while this list is read.
			_, _ = listed.get(t.Context(), "ci", func(context.Context) (counters, error) { <-first; return nil, nil })
		}()
		synctest.Wait()
		for i := range 100 {
			go func() {
				pod := policy.FactsOfObject(policy.PodProfile, map[string]any{"metadata": map[string]any{"namespace": "ci", "name": "p",
					"annotations": map[string]any{wellknown.AnnotationCountedBy: fmt.Sprint("made-up-", i)}}})
				if counter, err := p.Tallies.LiveCounter(t.Context(), client, pod); counter != nil || err != nil {
					t.Errorf("counted by %+v, %v", counter, err)
				}
			}()
		}
		synctest.Wait()
		close(first)
		synctest.Wait()
		if got := lists.Load(); got != 1 {
			t.Errorf("%d lists, want one", got)
		}
	})
}
