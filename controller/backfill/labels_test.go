package backfill

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/discovery"
)

// Without backfill only objects younger than the default are labelled, with it older ones too.
// What must not be touched is left alone, and what was labelled is not labelled again.
func TestWhatIsLabelled(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"without":    {"{" + namesConfigMaps + "}", []string{"young=30d by policy/p 30d backfill"}},
		"backfill":   {"{" + namesConfigMaps + ", backfill: true}", []string{"old=30d by policy/p 30d backfill", "young=30d by policy/p 30d backfill"}},
		"no label":   {"{match: {kinds: [{kind: ConfigMap}]}, defaults: {ttl: {value: 30d}}, backfill: true}", nil},
		"no kind":    {"{defaults: {ttlLabel: {value: 30d}}, backfill: true}", nil},
		"a wildcard": {"{match: {kinds: [{kind: '*'}]}, defaults: {ttlLabel: {value: 30d}}, backfill: true}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.policy("p", c.spec)
				w.options.Protect = []string{"kube-system"}
				w.add("ci", "old", 2*day, "")
				w.add("ci", "young", time.Minute, "")
				w.add("ci", "own", time.Minute, "labels: {curfew.dev/ttl: 1h}")
				w.add("ci", "alias", time.Minute, "labels: {cleanup.kyverno.io/ttl: 1h}")
				w.add("ci", "removed", time.Minute, "annotations: {curfew.dev/ttl-label-source: policy/p}")
				w.add("ci", "protected", time.Minute, "annotations: {curfew.dev/protect: 'true'}")
				w.add("ci", "owned", time.Minute, "ownerReferences: [{apiVersion: v1, kind: Widget, name: o, uid: u, controller: true}]")
				w.add("ci", "kube-root-ca.crt", time.Minute, "")
				w.add("ci", "deleting", time.Minute, "deletionTimestamp: '2000-01-01T00:00:00Z', finalizers: [a/b]")
				w.add("kube-system", "system", time.Minute, "")
				w.add("dry", "dry", time.Minute, "")
				w.add("gone", "gone", time.Minute, "")
				w.begin()
				w.expect(c.want...)
				if dry := strings.Contains(w.log.String(), `"dryRun"=1`); dry != (c.want != nil) {
					w.Errorf("the object in dry-run is reported: %t", dry)
				}
				if len(w.reads) > 0 {
					w.Errorf("read %q whole", w.reads)
				}
				time.Sleep(every)
				w.expect()
			})
		})
	}
}

// What comes to match when it is too old for its label is reported, not labelled.
func TestOldObjectWithoutBackfill(t *testing.T) {
	run(t, func(w *world) {
		w.policy("p", "{match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {value: 7d}}}")
		w.policies[0].Since = time.Now().Add(-365 * day)
		w.add("ci", "old", 100*day, "")
		w.begin()
		w.expect()
		if !strings.Contains(w.log.String(), `"withheld"=1`) {
			w.Errorf("it is not reported:\n%s", w.log.String())
		}
	})
}

// Selectors leave objects out by metadata alone. A condition has the object read whole, and so has
// a computed label.
func TestWholeObjects(t *testing.T) {
	run(t, func(w *world) {
		w.policy("p", `{match: {kinds: [{kind: ConfigMap}], namespaceSelector: {matchLabels: {name: ci}}, objectSelector: {matchLabels: {a: b}},
			matchConditions: [{name: a, expression: "object.data.tier == 'yes'"}]}, defaults: {ttlLabel: {expression: "object.data.tier == 'yes' ? '2d' : '3d'"}}}`)
		w.add("ci", "yes", time.Minute, "labels: {a: b}")
		w.add("ci", "no", time.Minute, "labels: {a: b}")
		w.add("ci", "other", time.Minute, "")
		w.add("cd", "elsewhere", time.Minute, "labels: {a: b}")
		w.begin()
		w.expect("yes=2d by policy/p 2d backfill")
		if !slices.Equal(w.reads, []string{"no", "yes"}) {
			w.Errorf("read %q whole", w.reads)
		}
	})
}

// A policy that bounds labels counts although it gives none, and is asked about the whole object.
func TestBoundsOfAnotherPolicy(t *testing.T) {
	run(t, func(w *world) {
		w.policy("p", "{"+namesConfigMaps+"}")
		w.policy("q", `{match: {matchConditions: [{name: a, expression: "object.data.tier == 'short'"}]}, bounds: {maxTTLLabel: 1d}}`)
		w.add("ci", "long", time.Minute, "")
		w.add("ci", "short", time.Minute, "")
		w.begin()
		w.expect("long=30d by policy/p 30d backfill", "short=1d by policy/p 1d backfill")
	})
}

// A policy that was given a condition during the round is asked about the whole object.
func TestPolicyChangesDuringTheRound(t *testing.T) {
	run(t, func(w *world) {
		w.policy("p", "{"+namesConfigMaps+"}")
		w.live = &world{T: w.T}
		w.live.policy("p", `{match: {kinds: [{kind: ConfigMap}], matchConditions: [{name: a, expression: "!has(object.data)"}]}, defaults: {ttlLabel: {value: 30d}}}`)
		w.add("ci", "a", time.Minute, "")
		w.begin()
		w.expect()
		if !slices.Equal(w.reads, []string{"a"}) {
			w.Errorf("read %q whole", w.reads)
		}
	})
}

// Nothing is read live for an object that gets no label by the cached policies.
func TestNothingIsReadLiveInVain(t *testing.T) {
	run(t, func(w *world) {
		w.policy("p", `{match: {kinds: [{kind: ConfigMap}], matchConditions: [{name: a, expression: "object.data.tier == 'yes'"}]}, defaults: {ttlLabel: {value: 30d}}}`)
		w.live = &world{T: w.T, policies: w.policies}
		for _, name := range []string{"a", "b", "yes"} {
			w.add("ci", name, time.Minute, "")
		}
		w.begin()
		w.expect("yes=30d by policy/p 30d backfill")
		if w.live.asked != 1 {
			w.Errorf("%d live reads, want 1", w.live.asked)
		}
	})
}

// An object that cannot be read keeps no other from its label. If many cannot, the visit ends.
func TestUnreadableObjects(t *testing.T) {
	for broken, want := range map[int][]string{1: {"yes=30d by policy/p 30d backfill"}, maxUnreadable: {"yes=30d by policy/p 30d backfill"}, maxUnreadable + 1: nil} {
		run(t, func(w *world) {
			w.policy("p", `{match: {kinds: [{kind: ConfigMap}], matchConditions: [{name: a, expression: "object.data.tier == 'yes'"}]}, defaults: {ttlLabel: {value: 30d}}}`)
			for i := range broken {
				w.add("ci", fmt.Sprintf("broken%02d", i), time.Minute, "")
			}
			w.add("ci", "yes", time.Minute, "")
			w.begin()
			w.expect(want...)
			for _, text := range []string{"trying again", "cannot decrypt broken00", fmt.Sprintf(`"failed"=%d`, min(broken, maxUnreadable))} {
				if want != nil && !strings.Contains(w.log.String(), text) {
					w.Errorf("logged:\n%s\nwant %s", w.log.String(), text)
				}
			}
		})
	}
}

// At most so many objects are labelled in any minute, those included that may have been: no answer
// came. The leader before this one may have labelled as many in its last minute.
func TestRate(t *testing.T) {
	for name, refuse := range map[string]error{"given": nil, "no answer": errors.New("connection reset by peer")} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.policy("p", "{"+namesConfigMaps+"}")
				w.options.PerMinute, w.refuse = 10, refuse
				for i := range 35 {
					w.add("ci", fmt.Sprintf("c%02d", i), time.Minute, "")
				}
				began := time.Now()
				w.begin()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if len(w.tries) > 0 && w.tries[0].Sub(began) < time.Minute {
					w.Errorf("an object was labelled %s after the start", w.tries[0].Sub(began))
				}
				if len(w.tries) != 35 || refuse == nil && len(w.at) != 35 {
					w.Fatalf("%d of %d labelled, want 35", len(w.at), len(w.tries))
				}
				for i := range len(w.tries) - 10 {
					if took := w.tries[i+10].Sub(w.tries[i]); took < time.Minute {
						w.Errorf("11 objects were labelled within %s", took)
					}
				}
			})
		})
	}
}

// What holds labels back is tried again, or reported, and writes nothing.
func TestNothingIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		log    string
	}{
		"dry-run":              {func(w *world) { w.options.DryRun = true }, `"dryRun"=1`},
		"no permission":        {func(w *world) { w.lacks = true }, `"kind"="ConfigMap" "missing"="patch configmaps"`},
		"the time is unknown":  {func(w *world) { w.timeErr = errors.New("no idea") }, "no idea"},
		"it changed meanwhile": {func(w *world) { w.refuse = apierrors.NewConflict(schema.GroupResource{}, "a", nil) }, `"moved"=1`},
		"refused":              {func(w *world) { w.refuse = apierrors.NewForbidden(schema.GroupResource{}, "a", nil) }, `"failed"=1`},
		"kinds are unknown": {func(w *world) {
			w.options.Places = func() ([]discovery.Place, bool) { return nil, false }
		}, ""},
		"it may not be deleted": {func(w *world) {
			w.options.Places = func() ([]discovery.Place, bool) { return []discovery.Place{{Kind: configMaps}}, true }
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.policy("p", "{"+namesConfigMaps+"}")
				w.add("ci", "a", time.Minute, "")
				c.change(w)
				w.begin()
				w.expect()
				if !strings.Contains(w.log.String(), c.log) {
					w.Errorf("logged:\n%s\nwant %s", w.log.String(), c.log)
				}
			})
		})
	}
}

// A permission that is granted later is noticed, and no longer reported as missing.
func TestPermissionIsGrantedLater(t *testing.T) {
	run(t, func(w *world) {
		w.policy("p", "{"+namesConfigMaps+"}")
		w.add("ci", "a", time.Minute, "")
		w.lacks = true
		labels := w.begin()
		w.expect()
		if got := collected(labels.skipped); got != 1 {
			w.Errorf("%d kinds are skipped, want 1", got)
		}
		w.lacks = false
		time.Sleep(every)
		w.expect("a=30d by policy/p 30d backfill")
		if got := collected(labels.skipped); got != 0 {
			w.Errorf("%d kinds are skipped, want none", got)
		}
	})
}

// collected is how many time series a metric has.
func collected(metric prometheus.Collector) int {
	all := make(chan prometheus.Metric, 10)
	metric.Collect(all)
	return len(all)
}
