package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// S7: a 404 for the list of PodTallies releases no Pod while their CustomResourceDefinition exists,
// or may exist: a proxy may have answered in the API server's place. Without it there are no
// tallies.
func TestNotFoundReleasesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		defined bool
		err     error
		held    bool
	}{"it exists": {defined: true, held: true}, "it may exist": {err: errors.New("forbidden"), held: true}, "it is gone": {}} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t.Fatalf), t.Context()
			w.addTally("a", "a")
			w.create("running", "a", true)
			p := w.process()
			p.settle(ctx)
			p.options.Cluster = &proxied{p.view, c.defined, c.err}
			if !c.held {
				clear(w.tallies)
				p.view.tallies = nil
			}
			if known := p.relist(ctx); known == c.held {
				t.Errorf("the PodTallies count as known: %t", known)
			}
			for range 5 {
				p.step(ctx, "")
			}
			if held := slices.Contains(w.pods["running"].Finalizers, wellknown.FinalizerTally); held != c.held {
				t.Errorf("the Pod has the finalizer: %t", held)
			}
		})
	}
}

// proxied is a cluster behind a proxy that answers 404.
type proxied struct {
	*view
	defined bool
	err     error
}

func (p *proxied) Tallies(context.Context, string) ([]*StoredTally, error) {
	return nil, apierrors.NewGenericServerResponse(404, "get", tallyKind, "", "404 page not found", 0, true)
}

func (p *proxied) Defined(context.Context) (bool, error) { return p.defined, p.err }

// S9: the oldest PodTallies of a namespace count, as many as may, and the others say that they do
// not. Their number bounds what a Pod costs.
func TestTooManyTallies(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	const tallies, pods = 1000, 200
	for i := range tallies {
		w.addTally(fmt.Sprintf("t%05d", i), "a")
		w.clock.Step(time.Second)
	}
	w.addTally("last", "b")
	for i := range pods {
		w.create(fmt.Sprint("p", i), "a", false)
	}
	w.create("not-counted", "b", false)
	p := w.process()
	before := heap()
	p.relist(ctx)
	if each := (int64(heap()) - int64(before)) / pods; each > 3000 {
		t.Errorf("%d bytes are kept of a Pod", each)
	}
	p.settle(ctx)
	reason := func(name string) string {
		return meta.FindStatusCondition(w.tallies[name].Status.Conditions, v1alpha1.ConditionReady).Reason
	}
	if got := []string{reason("t00099"), reason("t00100"), reason("last")}; !slices.Equal(got, []string{v1alpha1.ReasonCounting, v1alpha1.ReasonTooManyTallies, v1alpha1.ReasonTooManyTallies}) {
		t.Errorf("the 100th, the 101st and the last are %v", got)
	}
	if len(w.pods["p0"].Finalizers) != 1 || len(w.pods["not-counted"].Finalizers) > 0 {
		t.Error("want only the Pods of the oldest PodTallies to have the finalizer")
	}
	for i := range tallies {
		delete(w.tallies, fmt.Sprintf("t%05d", i))
	}
	p.watch.Again()
	w.known = nil
	w.around = func(string, bool) error { return nil }
	p.settle(ctx)
	if reason("last") != v1alpha1.ReasonCounting || !slices.Contains(w.pods["not-counted"].Finalizers, wellknown.FinalizerTally) {
		t.Errorf("the last one left is %s", reason("last"))
	}
}

// A PodTally that needs a newer Curfew counts, and its condition and an Event name the field (S6).
func TestTallyOfANewerVersion(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	w.tallies["a"].Unmet = requirement.Unmet("PodTally", map[string]any{"spec": map[string]any{"keepFailed": true}})
	w.create("p", "a", true)
	p, events := w.process(), []string{}
	p.options.Event = func(object *v1alpha1.PodTally, eventType, reason, message string) {
		events = append(events, object.Name+" "+eventType+" "+reason+" "+message)
	}
	p.settle(ctx)
	ready := meta.FindStatusCondition(w.tallies["a"].Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonNeedsNewerVersion || !strings.Contains(ready.Message, "spec.keepFailed: ") {
		t.Errorf("%+v", ready)
	}
	if !slices.Contains(w.pods["p"].Finalizers, wellknown.FinalizerTally) {
		t.Error("the Pod is not counted")
	}
	w.change("p", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	p.settle(ctx)
	if len(events) != 1 || !strings.HasPrefix(events[0], "a Warning NeedsNewerVersion spec.keepFailed: ") || w.tallies["a"].Status.Succeeded != 1 {
		t.Errorf("Events %q after %d writes", events, w.tallies["a"].Status.Succeeded)
	}
}

// reread reads PodTally "a" with another TTL, as a version that knows these fields since a version.
func (w *world) reread(t *testing.T, ttl, fields string) *StoredTally {
	t.Helper()
	known := requirement.Known
	t.Cleanup(func() { requirement.Known = known })
	table, err := requirement.Parse("PodTally spec v0.1.0\nPodTally spec.selector v0.1.0\nPodTally spec.selector.matchLabels v0.1.0\n" +
		"PodTally spec.selector.matchLabels.* v0.1.0\n" + fields)
	must(t, err)
	requirement.Known = func() *requirement.Table { return table }
	stored := w.tallies["a"].PodTally.DeepCopy()
	stored.Spec.TTLAfterCounted = nil
	if ttl != "" {
		stored.Spec.TTLAfterCounted = new(v1alpha1.TTL(ttl))
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	must(t, err)
	if w.tallies["a"], err = objectOf(&unstructured.Unstructured{Object: object}); err != nil {
		t.Fatal(err)
	}
	return w.tallies["a"]
}

// A PodTally records for older versions which newer fields it uses, also when its spec changes. An
// older version moves the record (S6).
func TestTallyRecordsNewerFields(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	record := func() string {
		if found := meta.FindStatusCondition(w.tallies["a"].Status.Conditions, v1alpha1.ConditionRequires); found != nil {
			return fmt.Sprintf("%s %d %s", found.Status, found.ObservedGeneration, found.Message)
		}
		return ""
	}
	w.create("p", "a", true)
	w.tallies["a"].Generation = 1
	const newer = "PodTally spec.ttlAfterCounted v0.2.0"
	// A version without records has written the status of this generation.
	w.reread(t, "1h", "PodTally spec.ttlAfterCounted v0.1.0")
	w.process().settle(ctx)
	if got := record(); got != "" {
		t.Errorf("a record without newer fields: %q", got)
	}
	w.reread(t, "1h", newer)
	p := w.process()
	p.settle(ctx)
	if got, want := record(), "True 1 v0.2.0: spec.ttlAfterCounted"; got != want {
		t.Fatalf("the newer version writes %q, want %q", got, want)
	}
	// The older version's CustomResourceDefinition drops the field, and its author changes the spec.
	w.tallies["a"].Generation = 2
	if len(w.reread(t, "", "").Unmet) == 0 {
		t.Error("the older version takes the loss for a decision")
	}
	p.watch.Again()
	p.settle(ctx)
	if got, want := record(), "True 2 v0.2.0: spec.ttlAfterCounted"; got != want {
		t.Errorf("the older version writes %q, want %q", got, want)
	}
	// Back on the newer version, it stays held until its spec is changed again.
	if len(w.reread(t, "", newer).Unmet) == 0 {
		t.Error("the newer version takes the loss for a decision")
	}
	w.tallies["a"].Generation = 3
	if unmet := w.reread(t, "", newer).Unmet; len(unmet) > 0 {
		t.Errorf("it is still held: %v", unmet)
	}
	w.process().settle(ctx)
	if got, want := record(), "False 3 every version knows all fields"; got != want {
		t.Errorf("after another change it writes %q, want %q", got, want)
	}
}
