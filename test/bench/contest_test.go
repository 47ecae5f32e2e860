package main

import (
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// The rate runs from the first to the last, lateness from the second in which an object is due, and
// an early deletion fails the heat.
func TestCount(t *testing.T) {
	due, set := time.Unix(1000, 0), jobSet{prefix: "h1", count: 3}
	seenAfter := func(ms ...int) (seen []sighting) {
		for i, m := range ms {
			seen = append(seen, sighting{set.name(i), due.Add(time.Duration(m) * time.Millisecond)})
		}
		return seen
	}
	for name, c := range map[string]struct {
		seen           []sighting
		perSecond      int
		window         time.Duration
		rate, p50, max float64
		err            string
	}{
		"two deletions in the 2 s after the first": {seen: seenAfter(500, 1000, 2500), rate: 1, p50: 1000, max: 2500},
		"two deletions of three in a window":       {seen: seenAfter(500, 1000), window: 20 * time.Second, rate: 0.1, p50: 500, max: 1000},
		"through before the window ends":           {seen: seenAfter(500, 1000, 2500), window: 30 * time.Second, rate: 1, p50: 1000, max: 2500},
		"two in each second":                       {seen: seenAfter(10, 20, 1030), perSecond: 2, rate: 1.961, p50: 20, max: 30},
		"nothing was deleted":                      {err: "0 objects were done: no rate can be told"},
		"early (S1)":                               {seen: seenAfter(-1, 5), err: "h1-000000 was done 1ms before it was due"},
		"early in its own second":                  {seen: seenAfter(10, 20, 900), perSecond: 2, err: "h1-000002 was done 100ms before it was due"},
		"all at the same time":                     {seen: seenAfter(3, 3), err: "all were seen at one instant: no rate can be told, let there be more objects"},
	} {
		var m measurement
		err := m.count(c.seen, set, due, c.perSecond, c.window)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: got %v, want %s", name, err, c.err)
			}
			continue
		}
		if err != nil || m.PerSecond != c.rate || m.P50 != c.p50 || m.Max != c.max {
			t.Errorf("%s: got %+v, %v", name, m, err)
		}
	}
}

// Results are named after the sizes, and are there for all who took part.
func TestSummaries(t *testing.T) {
	all := []measurement{
		{Contestant: theLimit, PerSecond: 1000, P50: 10, P99: 100, BystanderP99: 50}, {Contestant: theCurfew, PerSecond: 900, P50: 20, P99: 110, BystanderP99: 10},
		{Contestant: theUnbound, PerSecond: 300, P50: 40, P99: 440, BystanderP99: 20}, {Contestant: theDefault, PerSecond: 10},
	}
	reviews := []reviewMeasurement{
		{Contestant: answerNoop, P50: 100, P99: 200, Allocations: 50}, {Contestant: theCurfew, P50: 120, P99: 300, Allocations: 250},
		{Contestant: answerTyped, P50: 480, P99: 600, Allocations: 2500},
	}
	creates := []createMeasurement{{Contestant: createNone, P50: 1000}, {Contestant: createMAP, P50: 1500}, {Contestant: theCurfew, P50: 1900}}
	memory := []memoryRun{
		{Contestant: theCurfew, Heap: 10e6, Resident: 80e6}, {Contestant: theUnbound, Heap: 20e6, Resident: 100e6},
		{Contestant: theCurfew, Jobs: 20000, Heap: 12e6, Resident: 86e6}, {Contestant: theUnbound, Jobs: 20000, Heap: 110e6, Resident: 250e6},
	}
	for name, c := range map[string]struct {
		got  []result
		want map[string]float64
	}{
		"drain": {summarizeDrain(all, 10000), map[string]float64{"drain.jobs.10k.vs_limit": 0.9, "drain.jobs.10k.vs_intree_unthrottled": 3,
			"drain.jobs.10k.vs_intree_default": 90, "drain.bystander_p99.vs_intree": 0.5}},
		"without the limit": {summarizeDrain(all[1:2], 10000), map[string]float64{}},
		"rate":              {summarizeRate("label.drain", all, 1500), map[string]float64{"label.drain.1500.vs_limit": 0.9}},
		"lateness":          {summarizeLateness(all), map[string]float64{"lateness.p99_ms.vs_limit": 1.1, "lateness.p99_ms": 0.25, "lateness.p50_ms": 0.5}},
		"marks":             {summarizeMarks(all, bareLoop, 1_000_000), map[string]float64{"deadline.mark.1m.vs_limit": 0.9}},
		"admission": {summarizeAdmission(reviews), map[string]float64{"admission.p50.10.vs_noop": 1.2, "admission.p50.10.vs_typed": 0.25,
			"admission.p99.10.vs_noop": 1.5, "admission.allocs.10": 5, "admission.allocs.10.vs_typed": 0.1}},
		"creates": {summarizeCreates(creates), map[string]float64{"admission.create_added_p50.vs_map": 1.8, "admission.create_p50.curfew.vs_none": 1.9}},
		"memory": {memoryResults(memory), map[string]float64{"memory.jobs.bytes_per_object.20k": 0.022, "memory.jobs.resident_per_object.20k": 0.04,
			"memory.empty.heap": 0.5, "memory.empty.resident": 0.8}},
	} {
		got := map[string]float64{}
		for _, r := range c.got {
			got[r.Name] = r.Ratio
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got  %v\nwant %v", name, got, c.want)
		}
	}
	// Who was measured over a window says so.
	if got, want := summarizeDrain(all, 10000)[2].Baseline, "in-tree TTL controller, defaults, over the first 30 s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The ratio is taken pair by pair: when the machine halves its speed between rounds, the ratio of
// medians would tell of the machine and not of the contestants.
func TestCompareByPairs(t *testing.T) {
	got := compare("n", "u", []float64{100, 40, 300}, "b", []float64{200, 100, 400})
	want := result{Name: "n", Unit: "u", Value: 100, Baseline: "b", BaselineValue: 200, Ratio: 0.5, Low: 0.4, High: 0.75}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := percentile([]float64{4, 1, 2, 9}, 0.5); got != 2 {
		t.Errorf("got %v, want 2: a value that was seen", got)
	}
}

// An object counts once, when it is first seen to be done, and only one of the set.
func TestObserver(t *testing.T) {
	job := func(name string, deleting bool) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if deleting {
			j.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return j
	}
	run := func(name, status, reason string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "uid": name},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Failed", "status": status, "reason": reason}}}}}
	}
	for name, c := range map[string]struct {
		done   func(watch.Event, metav1.Object) bool
		events []watch.Event
	}{
		"deletions": {deleted, []watch.Event{
			{Type: watch.Modified, Object: job("h7-000000", false)}, // finished: no deletion
			{Type: watch.Deleted, Object: job("h7-000000", false)},  // in the background
			{Type: watch.Deleted, Object: job("h70-000000", true)},  // another heat's
			{Type: watch.Modified, Object: job("h7-000001", true)},  // in the foreground: accepted now,
			{Type: watch.Deleted, Object: job("h7-000001", true)},   // gone later, and counted once
		}},
		"marks": {marked, []watch.Event{
			{Type: watch.Added, Object: run("h7-000000", "False", "Running")},
			{Type: watch.Modified, Object: run("h7-000000", "True", "BackoffLimitExceeded")},
			{Type: watch.Deleted, Object: run("h7-000002", "True", "DeadlineExceeded")},
			{Type: watch.Modified, Object: run("h7-000000", "True", "DeadlineExceeded")},
			{Type: watch.Modified, Object: run("h7-000000", "True", "DeadlineExceeded")},
			{Type: watch.Modified, Object: run("h7-000001", "True", "DeadlineExceeded")},
		}},
	} {
		o := newObserver(jobSet{prefix: "h7", count: 2}, c.done)
		events := make(chan watch.Event, 10)
		for _, event := range c.events {
			events <- event
		}
		close(events)
		o.read(events)
		select {
		case <-o.full:
		default:
			t.Errorf("%s: it has not noticed that all are done", name)
		}
		if seen := o.sightings(); len(seen) != 2 || seen[0].name != "h7-000000" {
			t.Errorf("%s: %v were counted, want 2", name, seen)
		}
	}
	failed := newObserver(jobSet{}, deleted)
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "gone"}}
	if failed.read(events); failed.err == nil {
		t.Error("an error of the watch is lost, and a heat would wait for ever")
	}
}
