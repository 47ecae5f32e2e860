package main

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// A mark counts when it is first seen, once, and only that of a deadline on an object of the set.
func TestMarkObserver(t *testing.T) {
	event := func(kind, name, status, reason string) string {
		return `{"type":"` + kind + `","object":{"metadata":{"name":"` + name + `"},"status":{"conditions":[{"type":"Failed","status":"` + status + `","reason":"` + reason + `"}]}}}` + "\n"
	}
	o := &markObserver{prefix: "d2-", want: 2, full: make(chan struct{}), seen: map[string]time.Time{}}
	stream := event("ADDED", "d2-000000", "False", "Running") +
		event("MODIFIED", "d1-000000", "True", "DeadlineExceeded") + // another set
		event("MODIFIED", "d2-000000", "True", "BackoffLimitExceeded") +
		event("DELETED", "d2-000002", "True", "DeadlineExceeded") +
		event("MODIFIED", "d2-000000", "True", "DeadlineExceeded") +
		event("MODIFIED", "d2-000000", "True", "DeadlineExceeded")
	if err := o.read(strings.NewReader(stream)); err == nil || len(o.seen) != 1 {
		t.Fatalf("it has seen %v (%v), want one mark and the end of the stream", o.seen, err)
	}
	first := o.seen["d2-000000"]
	if err := o.read(strings.NewReader(event("MODIFIED", "d2-000000", "True", "DeadlineExceeded") + event("MODIFIED", "d2-000001", "True", "DeadlineExceeded"))); err == nil {
		t.Fatal("the stream has no end")
	}
	if !o.seen["d2-000000"].Equal(first) {
		t.Error("a mark was counted when it was seen again")
	}
	if err := o.await(t.Context()); err != nil {
		t.Error(err)
	}
	if err := o.read(strings.NewReader(`{"type":"ERROR","object":{}}` + "\n")); err == nil || !strings.Contains(err.Error(), "something is wrong") {
		t.Errorf("of an error it said %v", err)
	}
}

func TestMarkRates(t *testing.T) {
	due := time.Unix(1000, 0)
	m := markRun{}
	if err := m.count([]time.Time{due.Add(100 * time.Millisecond), due.Add(600 * time.Millisecond), due.Add(1100 * time.Millisecond)}, due); err != nil {
		t.Fatal(err)
	}
	if m.Marked != 3 || m.PerSecond != 2 || m.FirstAfter != 0.1 {
		t.Errorf("it came to %+v, want 3 marks, 2 a second, the first after 0.1 s", m)
	}
	if err := m.count([]time.Time{due.Add(-time.Millisecond), due.Add(time.Second)}, due); err == nil {
		t.Error("a mark before the deadline passed for one")
	}
}

func TestMarkResults(t *testing.T) {
	all := []markRun{
		{Contestant: theLimit, PerSecond: 1000}, {Contestant: theCurfew, PerSecond: 800}, {Contestant: theDrainer, PerSecond: 900},
		{Contestant: theLimit, PerSecond: 500}, {Contestant: theCurfew, PerSecond: 450}, {Contestant: theDrainer, PerSecond: 475},
	}
	got := map[string]float64{}
	for _, r := range markResults(all, 10000) {
		got[r.Name] = r.Ratio
	}
	if want := map[string]float64{"deadline.mark.10k.vs_limit": 0.85, "deadline.mark.10k.favour_drain.vs_limit": 0.925}; !maps.Equal(got, want) {
		t.Errorf("the ratios are %v, want %v", got, want)
	}
}
