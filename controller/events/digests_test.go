package events

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/record"
)

// store keeps Events as the API server would.
type store struct {
	typedcorev1.EventInterface
	of       map[string]*corev1.Event
	requests int
}

func (s *store) Create(_ context.Context, event *corev1.Event, _ metav1.CreateOptions) (*corev1.Event, error) {
	s.requests++
	if s.of[event.Name] != nil {
		return nil, apierrors.NewAlreadyExists(corev1.Resource("events"), event.Name)
	}
	s.of[event.Name] = event
	return event, nil
}

func (s *store) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Event, error) {
	s.requests++
	event := s.of[name]
	if event == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("events"), name)
	}
	return event, json.Unmarshal(data, event)
}

// homes are the Events of an API server, by namespace.
type homes map[string]*store

// digests are written at noon, until the clock is stepped.
func (h homes) digests(uids func(Target) types.UID) (*Digests, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC))
	return NewDigests(DigestOptions{Clock: clk, Log: logr.Discard(), UIDs: uids, Client: h}), clk
}

func (h homes) Events(namespace string) typedcorev1.EventInterface {
	if h[namespace] == nil {
		h[namespace] = &store{of: map[string]*corev1.Event{}}
	}
	return h[namespace]
}

func named(target Target) types.UID { return types.UID("uid-" + target.Name) }

// all are the Events as "reason kind/name xcount: message".
func (s *store) all() []string {
	var out []string
	for _, event := range s.of {
		on := event.InvolvedObject
		out = append(out, fmt.Sprintf("%s %s %s/%s %s x%d: %s", event.Reason, on.APIVersion, on.Kind, on.Name, on.UID, event.Count, event.Message))
	}
	slices.Sort(out)
	return out
}

func summary(source, kind, trigger string, deleted, dryRun int, names ...string) expire.Summary {
	resource := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: strings.ToLower(kind) + "s"}
	t := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	return expire.Summary{Source: source, Trigger: trigger, Kind: expire.KindOptions{Type: deletion.Type{Kind: kind, Resource: resource}},
		Deleted: deleted, DryRun: dryRun, Examples: names, First: t, Last: t.Add(time.Second)}
}

// in is a summary of objects of one namespace.
func in(namespace string, s expire.Summary) expire.Summary {
	s.Namespace = namespace
	return s
}

// One Event a source, however much is deleted and for how long; it says what the last minute
// brought and how much there was in all.
func TestDigests(t *testing.T) {
	stores := homes{}
	digests, clk := stores.digests(named)
	events := stores.Events(metav1.NamespaceDefault).(*store)
	say := func(summaries ...expire.Summary) {
		digests.Add(summaries)
		digests.Flush(t.Context())
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if got := events.all(); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	say(
		summary("namespace/ci", "Job", "ttl", 12, 0, "ci/a", "ci/b", "ci/c"),
		summary("namespace/ci", "Pod", "ttl", 3, 0, "ci/p", "ci/q", "ci/r"),
		summary("policy/platform", "Job", "ttl", 1, 2, "x/a"),
	)
	platform := []string{
		"Deleted curfew.dev/v1alpha1 LifecyclePolicy/platform uid-platform x1: Deleted 1 x Job by ttl: x/a",
		"WouldDelete curfew.dev/v1alpha1 LifecyclePolicy/platform uid-platform x1: Would delete (dry-run) 2 x Job by ttl: x/a, …",
	}
	expect("the first minute", slices.Concat(platform[:1],
		[]string{"Deleted v1 Namespace/ci uid-ci x1: Deleted 12 x Job by ttl, 3 x Pod by ttl: ci/a, ci/b, ci/c, ci/p, ci/q, ci/r, …"}, platform[1:])...)

	for range 10 {
		clk.Step(time.Minute)
		say(summary("namespace/ci", "Job", "ttl", 1000, 0, "ci/d"))
	}
	expect("ten minutes later", slices.Concat(platform[:1],
		[]string{"Deleted v1 Namespace/ci uid-ci x11: Deleted 1000 x Job by ttl: ci/d, … (10015 since 2026-12-24T12:00:00Z)"}, platform[1:])...)
	if events.requests != 13 {
		t.Errorf("%d requests, want one a source and minute", events.requests)
	}

	// The API server has forgotten it.
	clear(events.of)
	say(summary("namespace/ci", "Job", "ttl", 2, 0, "ci/e", "ci/f"))
	expect("forgotten", "Deleted v1 Namespace/ci uid-ci x1: Deleted 2 x Job by ttl: ci/e, ci/f")
	say(summary("namespace/ci", "Job", "ttl", 1, 0, "ci/g"))
	expect("forgotten, and a minute later", "Deleted v1 Namespace/ci uid-ci x2: Deleted 1 x Job by ttl: ci/g (3 since 2026-12-24T12:10:00Z)")

	// A digest that was idle for long begins again, and keeps nothing in memory.
	clk.Step(idle + time.Second)
	say(summary("namespace/exp", "Job", "ttl", 1, 0, "exp/a"))
	if len(digests.events) != 1 {
		t.Errorf("%d digests are kept, want that of exp alone", len(digests.events))
	}
	say(summary("namespace/ci", "Job", "ttl", 1, 0, "ci/h"))
	expect("after a pause",
		"Deleted v1 Namespace/ci uid-ci x1: Deleted 1 x Job by ttl: ci/h",
		"Deleted v1 Namespace/ci uid-ci x2: Deleted 1 x Job by ttl: ci/g (3 since 2026-12-24T12:10:00Z)",
		"Deleted v1 Namespace/exp uid-exp x1: Deleted 1 x Job by ttl: exp/a")
}

// However many kinds and however long names, the text fits.
func TestDigestOfManyKinds(t *testing.T) {
	d := &deletions{counts: map[group]int{}, names: []string{strings.Repeat("ä", 800), "b"}}
	for i := range 40 {
		d.counts[group{fmt.Sprintf("Kind%d", i), "label"}] = i + 1
	}
	note := new(digest).add(ReasonDeleted, d, time.Now())
	if want := "Deleted 40 x Kind39 by label, 39 x Kind38 by label,"; !strings.HasPrefix(note, want) || !strings.Contains(note, "33 x Kind32 by label, 32 more kinds: ä") {
		t.Errorf("%s\nwant %s …", note, want)
	}
	if len(note) > maxNote {
		t.Errorf("%d bytes", len(note))
	}
}

// Deletions by an object's own setting are reported inside its namespace, and of cluster-scoped
// objects inside default. Ten objects are named, and forty are on record, the latest ones.
func TestDigestsOfObjects(t *testing.T) {
	stores := homes{}
	digests, clk := stores.digests(named)
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("ci/job-%d", i))
	}
	for range 5 {
		digests.Add([]expire.Summary{
			in("ci", summary("object", "Job", "label", 12, 0, names...)), in("ci", summary("runtime/torch", "TrainJob", "ttl", 0, 3, "ci/train")),
			in("", summary("object", "Node", "label", 1, 0, "worker")), in("lab", summary("namespace/lab", "Job", "ttl", 1, 0, "lab/a")),
		})
		digests.Flush(t.Context())
		clk.Step(time.Minute)
	}
	if len(stores) != 2 || len(stores["ci"].of) != 2 || len(stores["default"].of) != 2 {
		t.Fatalf("Events are in %d namespaces, %d in ci, %d in default", len(stores), len(stores["ci"].of), len(stores["default"].of))
	}
	if !slices.ContainsFunc(stores["default"].all(), func(event string) bool {
		return strings.HasPrefix(event, "Deleted v1 Namespace/default uid-default x5: Deleted 1 x Node by label: worker (5 since")
	}) {
		t.Errorf("Events in default: %v", stores["default"].all())
	}
	for _, event := range stores["ci"].of {
		on := event.InvolvedObject
		if event.Namespace != "ci" || on.Kind != "Namespace" || on.Name != "ci" || on.Namespace != "ci" {
			t.Errorf("an Event in %s on %+v", event.Namespace, on)
		}
		records := record.Read(event.Annotations)
		if event.Reason == ReasonWouldDelete {
			if len(records) > 0 || !strings.HasPrefix(event.Message, "Would delete (dry-run) 3 x TrainJob by ttl: ci/train") {
				t.Errorf("%s, with %d records", event.Message, len(records))
			}
			continue
		}
		if want := "Deleted 12 x Job by label: " + strings.Join(names, ", ") + ", … (60 since 2026-12-24T12:00:00Z)"; event.Message != want {
			t.Errorf("%s\nwant %s", event.Message, want)
		}
		instant := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
		want := record.Record{Resource: "jobs.batch", Namespace: "ci", Name: "job-9", Trigger: "label", Source: "object", From: instant, To: instant.Add(time.Second), Total: 60}
		if len(records) != 40 || records[39] != want {
			t.Errorf("%d records, the last %+v", len(records), records[len(records)-1])
		}
	}
}

// A stamp that names a policy which does not exist costs no Event and no memory of its own: its
// author can invent any number of names.
func TestDigestsOfInventedPolicies(t *testing.T) {
	stores := homes{}
	digests, _ := stores.digests(func(target Target) types.UID {
		if target.Policy {
			return ""
		}
		return "uid"
	})
	var all []expire.Summary
	for i := range 1000 {
		all = append(all, in("tenant", summary(fmt.Sprintf("policy/p%d", i), "ConfigMap", "label", 1, 0, fmt.Sprintf("tenant/%d", i))))
	}
	digests.Add(all)
	for _, deletions := range digests.fresh {
		if len(deletions.records) > 40 || len(deletions.names) > examples {
			t.Errorf("%d records and %d names wait to be written", len(deletions.records), len(deletions.names))
		}
	}
	digests.Flush(t.Context())
	if len(stores) != 1 || stores["tenant"] == nil || len(stores["tenant"].of) != 1 || len(digests.events) != 1 {
		t.Errorf("Events in %v, %d digests", stores, len(digests.events))
	}
}

// However many sources there are, a bounded number of Events is written and remembered. The others
// share one, which counts all of their deletions. A policy always has its own.
func TestDigestsAreBounded(t *testing.T) {
	stores := homes{}
	digests, clk := stores.digests(func(Target) types.UID { return "uid" })
	const minutes, each = 4, 3 * maxDigests
	for m := range minutes {
		var all []expire.Summary
		for i := range each {
			namespace := fmt.Sprintf("n%d-%d", m, i)
			all = append(all, in(namespace, summary("object", "ConfigMap", "label", 2, 0, namespace+"/a", namespace+"/b")))
		}
		all = append(all, summary("policy/platform", "Job", "ttl", 1, 0, "ci/a"))
		digests.Add(all)
		if fresh := len(digests.fresh); fresh > maxDigests+2 {
			t.Fatalf("%d sources wait to be written", fresh)
		}
		digests.Flush(t.Context())
		clk.Step(time.Minute)
	}
	written := 0
	for _, home := range stores {
		written += home.requests
	}
	if most := minutes * (maxDigests + 2); written > most || written < minutes*maxDigests || len(digests.events) > maxRemembered {
		t.Errorf("%d Events were written, want at most %d; %d are remembered", written, most, len(digests.events))
	}
	events := strings.Join(stores["default"].all(), "\n")
	if want := fmt.Sprintf("(%d since", minutes*2*(each-maxDigests)); !strings.Contains(events, want) || !strings.Contains(events, "LifecyclePolicy/platform uid x4: Deleted 1 x Job by ttl") {
		t.Errorf("Events in default:\n%s\nwant … %s", events, want)
	}
}
