package discovery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/expire"
)

// world records what a set does.
type world struct {
	mu     sync.Mutex
	events []string
}

func (w *world) add(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf(format, arguments...))
}

func (w *world) Hold(kind expire.Kind, on bool) {
	if on {
		w.add("hold %d", kind)
	}
}

func (w *world) ForgetKind(kind expire.Kind) { w.add("forget %d", kind) }

// expect compares the events since the last call.
func (w *world) expect(t *testing.T, want string) {
	t.Helper()
	time.Sleep(time.Minute)
	w.compare(t, want)
}

// expectAnyOrder is expect for feeds that begin at once; want is sorted.
func (w *world) expectAnyOrder(t *testing.T, want string) {
	t.Helper()
	time.Sleep(time.Minute)
	w.mu.Lock()
	slices.Sort(w.events)
	w.mu.Unlock()
	w.compare(t, want)
}

func (w *world) compare(t *testing.T, want string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.events, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	w.events = nil
}

// stream is a feed that takes a second to end.
type stream struct {
	world   *world
	name    string
	handles []expire.Kind
}

func (s *stream) Run(ctx context.Context) error {
	s.world.add("%s begins", s.name)
	<-ctx.Done()
	time.Sleep(time.Second)
	s.world.add("%s ends", s.name)
	return nil
}

func (s *stream) RejudgeNamespace(name string) { s.world.add("%s judges %s", s.name, name) }
func (s *stream) RejudgePods(namespace string, job types.UID, _ bool) {
	s.world.add("%s judges the Pods of %s in %s", s.name, job, namespace)
}
func (s *stream) RejudgeAll()            { s.world.add("%s judges all", s.name) }
func (s *stream) Handles() []expire.Kind { return s.handles }

// begin runs a set whose feeds track what handles says, by the version of their specs.
func begin(t *testing.T, handles map[string][]expire.Kind) (*world, *discovery.Set, func(specs ...*discovery.Spec)) {
	t.Helper()
	w := &world{}
	set := discovery.NewSet(discovery.SetOptions{
		Tracker: w, Clock: clock.RealClock{},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = set.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	source := &discovery.Source{
		Make: func(spec *discovery.Spec) (discovery.Feed, error) {
			return &stream{world: w, name: spec.Namespace + spec.Version, handles: handles[spec.Version]}, nil
		},
		Log: logr.Discard(), Skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{}, []string{"group", "kind", "reason"}),
	}
	return w, set, func(specs ...*discovery.Spec) { set.Apply(ctx, source, specs, set.Changes()) }
}

func spec(purpose discovery.Purpose, namespace, version string) *discovery.Spec {
	return &discovery.Spec{
		Key:  discovery.Key{Resource: schema.GroupResource{Resource: "renders"}, Purpose: purpose, Namespace: namespace},
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "Render"}, Version: version,
	}
}

// A feed that judges all objects of its predecessor again takes over what that tracked, apart from
// what it does not track itself. Deletions wait from the moment at which the predecessor is
// stopped.
func TestSuccessorTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, apply := begin(t, map[string][]expire.Kind{"both": {1, 2}, "ttl": {1}})
		apply(spec(discovery.Finish, "", "both"))
		w.expect(t, "both begins")
		apply(spec(discovery.Finish, "", "both"))
		w.expect(t, "")
		set.RejudgeNamespace("ci")
		w.expect(t, "both judges ci")
		apply(spec(discovery.Finish, "", "ttl"))
		w.expect(t, "hold 1, hold 2, both ends, forget 2, ttl begins")
		apply()
		w.expect(t, "hold 1, ttl ends, forget 1")
	})
}

// A successor that is replaced before it began leaves what was tracked to the next, or has it
// forgotten.
func TestSuccessorThatNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, apply := begin(t, map[string][]expire.Kind{"a": {1}, "b": {1}, "c": {1}})
		apply(spec(discovery.Finish, "", "a"))
		w.expect(t, "a begins")
		apply(spec(discovery.Finish, "", "b"))
		apply(spec(discovery.Finish, "", "c"))
		w.expect(t, "hold 1, hold 1, a ends, c begins")
		apply(spec(discovery.Finish, "", "a"))
		apply()
		w.expect(t, "hold 1, hold 1, c ends, forget 1")
		newer := spec(discovery.Finish, "", "b")
		newer.Kind.Version = "v2"
		apply(spec(discovery.Finish, "", "a"))
		w.expect(t, "a begins")
		apply(newer)
		w.expect(t, "hold 1, a ends, forget 1, b begins")
	})
}

// What a feed of labels tracked is forgotten before another one begins that may see the same
// objects.
func TestLabelsAreForgottenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, apply := begin(t, map[string][]expire.Kind{"1": {1}, "2": {2}, "3": {3}})
		apply(spec(discovery.Label, "team", "1"), spec(discovery.Alias, "team", "2"))
		w.expectAnyOrder(t, "team1 begins, team2 begins")
		apply(spec(discovery.Label, "", "3"), spec(discovery.Alias, "team", "2"))
		w.expect(t, "hold 1, team1 ends, forget 1, 3 begins")
	})
}

// While rules are outdated a kind stays on hold, and its labels are judged again.
func TestOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, apply := begin(t, map[string][]expire.Kind{"rules": {1}, "label": {2}})
		both := []*discovery.Spec{spec(discovery.Finish, "", "rules"), spec(discovery.Label, "", "label")}
		apply(both...)
		w.expectAnyOrder(t, "label begins, rules begins")
		set.Outdated(schema.GroupKind{Kind: "Other"})
		w.expect(t, "")
		set.Outdated(both[0].Kind.GroupKind())
		w.expect(t, "hold 1, label judges all")
		apply(both...)
		if len(set.Changes()) > 0 {
			t.Errorf("%v: want no change left", set.Changes())
		}
	})
}

// Settings of a Job concern its finished Pods, or all finished Pods of its namespace.
func TestRejudgePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, apply := begin(t, nil)
		apply(discovery.Typed()...)
		w.expectAnyOrder(t, " begins,  begins")
		set.RejudgePods("ci", "uid", true)
		w.expect(t, " judges the Pods of uid in ci")
		set.RejudgePods("ci", "", false)
		w.expect(t, " judges ci")
	})
}
