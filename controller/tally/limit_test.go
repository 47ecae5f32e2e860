package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy/requirement"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// S7: a 404 for the list of PodTallies releases no Pod while their CustomResourceDefinition exists,
// or may exist: a proxy may have answered in the API server's place.
func TestNotFoundReleasesNothing(t *testing.T) {
	for name, broken := range map[string]error{"it exists": nil, "it may exist": errors.New("forbidden")} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t.Fatalf), t.Context()
			w.addTally("a", "a")
			w.create("running", "a", true)
			w.change("running", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
			p := w.process()
			p.settle(ctx)
			p.options.Cluster = &proxied{view: p.view, defined: broken}
			if p.relist(ctx) {
				t.Error("the PodTallies count as known")
			}
			for range 5 {
				p.step(ctx, "")
			}
			w.remove("running")
			if w.pods["running"] == nil {
				t.Error("the Pod is gone, and its PodTally will never count it")
			}
		})
	}
}

// proxied is a cluster behind a proxy that answers 404.
type proxied struct {
	*view
	defined error
}

func (p *proxied) Tallies(context.Context, string) ([]*StoredTally, error) {
	return nil, apierrors.NewGenericServerResponse(404, "get", tallyKind, "", "404 page not found", 0, true)
}

func (p *proxied) Defined(context.Context) (bool, error) { return p.defined == nil, p.defined }

// S9: PodTallies that come and go under new names are forgotten.
func TestWorkIsForgotten(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("stays", "a")
	p := w.process()
	p.relist(ctx)
	for i := range 50 {
		name := fmt.Sprint("build-", i)
		w.addTally(name, "b")
		p.relist(ctx)
		delete(w.tallies, name)
		p.relist(ctx)
	}
	if n := len(p.work); n > 2 {
		t.Errorf("%d PodTallies are remembered, and one exists", n)
	}
}

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
	p.watch.again.Set()
	w.known = nil
	w.around = func(string, bool) error { return nil }
	p.settle(ctx)
	if reason("last") != v1alpha1.ReasonCounting || !slices.Contains(w.pods["not-counted"].Finalizers, wellknown.FinalizerTally) {
		t.Errorf("the last one left is %s", reason("last"))
	}
}

// A change of ttlAfterCounted alone has nothing listed again.
func TestChangeOfTTLListsNothing(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	w.create("p", "a", true)
	p := w.process()
	p.settle(ctx)
	before := w.requests
	changed := w.tallies["a"]
	text := v1alpha1.TTL("1h")
	changed.Spec.TTLAfterCounted, changed.Generation, changed.ResourceVersion = &text, 2, w.next()
	compiled, _ := match.Compile(&changed.PodTally)
	if !p.watch.adjust([]*match.Tally{compiled}) || w.requests != before {
		t.Errorf("%d requests", w.requests-before)
	}
	p.settle(ctx)
	if got := w.tallies["a"].Status.ObservedGeneration; got != 2 {
		t.Errorf("the status is about generation %d", got)
	}
	compiled.UID = "another"
	if p.watch.adjust([]*match.Tally{compiled}) || p.watch.adjust(nil) {
		t.Error("another PodTally, or none, lists nothing either")
	}
}

// PodTallies that come and go all the time have the Pods listed less and less often.
func TestListsAreGathered(t *testing.T) {
	w := newWorld(t.Fatalf)
	p := w.process()
	var waits []time.Duration
	for range 10 {
		waits = append(waits, p.watch.gathering(w.clock.Now()))
		w.clock.Step(waits[len(waits)-1])
	}
	if waits[0] > time.Second || waits[9] < maxGather/2 || waits[9] > 2*maxGather {
		t.Errorf("waits %v", waits)
	}
	w.clock.Step(2 * calm)
	if wait := p.watch.gathering(w.clock.Now()); wait > time.Second {
		t.Errorf("after calm: %s", wait)
	}
	// A change during the wait is not lost when the watch ends.
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t.Fatalf).process()
		p.watch.again.Set()
		events := watch.NewFake()
		go func() {
			synctest.Wait()
			events.Stop()
		}()
		_, again, err := p.drain(t.Context(), p.watch, "1", events, p.options.Clock.NewTimer(time.Hour))
		if again || err != nil || len(p.watch.again) != 1 {
			t.Errorf("again %t, %v, %d signals", again, err, len(p.watch.again))
		}
	})
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
	if err != nil {
		t.Fatal(err)
	}
	requirement.Known = func() *requirement.Table { return table }
	stored := w.tallies["a"].PodTally.DeepCopy()
	stored.Spec.TTLAfterCounted = nil
	if ttl != "" {
		stored.Spec.TTLAfterCounted = new(v1alpha1.TTL(ttl))
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err != nil {
		t.Fatal(err)
	}
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
	changed := w.reread(t, "", "")
	compiled, _ := match.Compile(&changed.PodTally)
	compiled.Requires = changed.Requires
	if len(changed.Unmet) == 0 || p.watch.adjust([]*match.Tally{compiled}) {
		t.Errorf("held by %v; or the PodTally is not read again, so that nothing moves the record", changed.Unmet)
	}
	w.process().settle(ctx)
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
