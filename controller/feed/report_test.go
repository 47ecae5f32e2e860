package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

// What concerns a single object is told on that object.
func TestReportsOnObjects(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	reports := NewReports(recorder, logr.Discard(), prometheus.NewRegistry())
	reports.Stuck(expire.StuckObject{
		Object: expire.Entry{Namespace: "ci", Name: "a", UID: "u"},
		Kind:   expire.KindOptions{Type: deletion.Type{Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Kind: "Job"}},
		Since:  time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("", 3600)),
	})
	reports.Blocked(expire.BlockedObject{
		Object: expire.Entry{Namespace: "ci", Name: "a", UID: "u", Expiry: time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("", 3600))},
		Kind:   expire.KindOptions{Type: deletion.Type{Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Kind: "Job"}},
		Reason: expire.ReasonConflict, Message: "it changes",
	})
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	want := []string{
		"Warning Stuck still terminating since 2026-12-24T12:00:00Z: some finalizer is not removed; Curfew does not delete it again",
		"Warning DeleteConflict due since 2026-12-24T12:00:00Z, but it changes; Curfew keeps trying",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// written keeps the Events that are asked for, and the lines that are logged.
type written struct {
	mu     sync.Mutex
	events []string
	on     []corev1.ObjectReference
	lines  int
}

func (w *written) Eventf(on, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reference := on.(*corev1.ObjectReference)
	w.on = append(w.on, *reference)
	w.events = append(w.events, fmt.Sprintf("%s %s/%s: ", reason, reference.Kind, reference.Name)+fmt.Sprintf(note, args...))
}

func (w *written) log() logr.Logger {
	return funcr.New(func(string, string) { w.mu.Lock(); w.lines++; w.mu.Unlock() }, funcr.Options{})
}

func keptFeed(t *testing.T) (*Feed, *written, *prometheus.Registry) {
	t.Helper()
	out, registry := &written{}, prometheus.NewRegistry()
	reports := NewReports(out, out.log(), registry)
	reports.UID = func(namespace string) types.UID { return types.UID("uid-of-" + namespace) }
	return &Feed{kind: newWorld().kind(), options: Options{Reports: reports}, log: logr.Discard()}, out, registry
}

func (f *Feed) keeps(namespace, name, why string) {
	f.report(&policy.Facts{Profile: policy.JobProfile, Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)},
		policy.Verdict{Reason: "its TTL cannot be used", Err: errors.New(why)})
}

// A policy in dry-run keeps an object from Curfew alone: the kind's own controller deletes by the
// native field.
func TestDryRunThatDoesNotHold(t *testing.T) {
	f, out, _ := keptFeed(t)
	instant := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	facts := func(ttl lifetime.NativeField) *policy.Facts {
		return &policy.Facts{Profile: policy.JobProfile, Namespace: "ci", Name: "a", UID: "u", NativeTTL: ttl, State: policy.State{Finished: true, FinishTime: instant}}
	}
	held := policy.Verdict{Action: policy.Wait, Trigger: policy.TriggerTTL, Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "trial"}, DryRun: true}
	native := lifetime.NativeField{Set: true, Seconds: 3600}
	enforced, ofNamespace := held, held
	enforced.DryRun, ofNamespace.Source = false, lifetime.Source{Level: lifetime.LevelNamespace, Name: "ci"}
	f.report(facts(lifetime.NativeField{}), held)
	f.report(facts(native), enforced)
	f.report(facts(native), ofNamespace)
	f.report(facts(native), held)
	f.report(facts(native), held)
	want := []string{`NotHeld Job/a: policy "trial" is in mode DryRun, which Curfew obeys, but Kubernetes' TTL-after-finished controller deletes the object ` +
		`by spec.ttlSecondsAfterFinished 3600 (1h) at 2026-12-24T13:00:00Z: remove the field to keep the object`}
	if !slices.Equal(out.events, want) {
		t.Errorf("%q, want %q", out.events, want)
	}
}

// S9: a bound that thousands of objects break, judged again and again, costs few Events and log
// lines. Each object is reported: the objects of another namespace have their own Events, and
// objects without one share an Event that counts them and gives the reason. The metric counts all.
func TestManyKeptObjectsShareEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, out, registry := keptFeed(t)
		const objects = 20_000
		for range 3 {
			for i := range objects {
				f.keeps("ci", fmt.Sprintf("job-%05d", i), "7d is above max-ttl 1d")
			}
		}
		f.keeps("other", "mine", "7d is above max-ttl 1d")
		if len(out.events) != maxAlone+1 || out.lines != maxAlone+1 {
			t.Errorf("%d Events and %d lines, want %d", len(out.events), out.lines, maxAlone+1)
		}
		if want := "Kept Job/mine: its TTL cannot be used: 7d is above max-ttl 1d"; out.events[len(out.events)-1] != want {
			t.Errorf("%q, want %q", out.events[len(out.events)-1], want)
		}
		out.events, out.on = nil, nil
		f.options.Reports.flush()
		want := []string{fmt.Sprintf("Kept Namespace/ci: %d x Job without an Event of their own: its TTL cannot be used: "+
			"job-00020, job-00021, job-00022: its TTL cannot be used: 7d is above max-ttl 1d", objects-maxAlone)}
		if !slices.Equal(out.events, want) || out.on[0].UID != "uid-of-ci" {
			t.Errorf("%q on %v, want %q", out.events, out.on, want)
		}
		families, err := registry.Gather()
		if err != nil || families[0].GetMetric()[0].GetCounter().GetValue() != 3*objects+1 {
			t.Errorf("%v, %v; want all to be counted", families, err)
		}
		f.options.Reports.flush()
		if len(out.events) != 1 {
			t.Errorf("flushed twice: %q", out.events)
		}
	})
}

// An object has an Event for each reason, and for the same reason again once the first may be
// forgotten.
func TestKeptObjectIsReportedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, out, _ := keptFeed(t)
		for range 60 { // minutes
			f.keeps("ci", "a", "one")
			f.keeps("ci", "a", "two")
			time.Sleep(time.Minute)
		}
		if len(out.events) != 6 || out.lines != 6 {
			t.Errorf("%d Events and %d lines in an hour, want one for each reason every %s: %q", len(out.events), out.lines, repeatAfter, out.events)
		}
	})
}

// S9: however many reasons, namespaces and objects there are, and however long a text, memory and
// Events stay bounded.
func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, out, _ := keptFeed(t)
		long := strings.Repeat("ä", 1000)
		for i := range 3 * maxRemembered {
			f.keeps(fmt.Sprint("ns", i), "a", fmt.Sprint(i, long))
		}
		budget := f.options.Reports.budget
		if n := len(budget.recent) + len(budget.earlier); n > 2*maxRemembered || len(budget.groups) > maxGroups || len(out.events) > burst {
			t.Errorf("%d remembered, %d groups, %d Events", n, len(budget.groups), len(out.events))
		}
		for minute := 1; len(budget.groups) > 0; minute++ {
			if minute > maxGroups/maxShared+1 {
				t.Fatalf("%d groups are left after %d minutes", len(budget.groups), minute)
			}
			before := len(out.events)
			f.options.Reports.flush()
			if n := len(out.events) - before; n > maxShared {
				t.Errorf("%d Events at a time", n)
			}
		}
		for _, event := range out.events {
			if _, note, _ := strings.Cut(event, ": "); len(note) > maxNote || !utf8.ValidString(note) {
				t.Fatalf("an Event of %d bytes", len(note))
			}
		}
	})
}

// What objects share is written once a minute.
func TestReportsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, out, _ := keptFeed(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.options.Reports.Run(ctx) }()
		for i := range maxAlone + 5 {
			f.keeps("ci", fmt.Sprint(i), "x")
		}
		at(shareEvery)
		cancel()
		if err := <-done; err != nil || len(out.events) != maxAlone+1 || !strings.Contains(out.events[maxAlone], "5 x Job") {
			t.Errorf("error %v, events %q; want %d alone and one for 5 more Jobs", err, out.events, maxAlone)
		}
	})
}
