package follow

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/test/builders"
)

// mute are Namespaces whose watch begins again and shows nothing.
type mute struct {
	cache.Cache
	cache.Informer
	watches int
	at      string
	have    map[string]string // resourceVersions
	// fails is called in the place of a LIST, if it is set.
	fails func(context.Context) error
}

func (m *mute) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return m, nil
}
func (m *mute) RemoveInformer(context.Context, client.Object) error { return nil }
func (m *mute) HasSynced() bool                                     { return true }
func (m *mute) HasSyncedChecker() toolscache.DoneChecker            { return nil }
func (m *mute) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	m.watches++
	return m, nil
}

func (m *mute) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if m.fails != nil {
		return m.fails(ctx)
	}
	out := list.(*metav1.PartialObjectMetadataList)
	for name, version := range m.have {
		out.Items = append(out.Items, *namespaceIn(name, version))
	}
	out.ResourceVersion = m.at
	return nil
}

func namespaceIn(name, version string) *metav1.PartialObjectMetadata {
	out := NamespaceMeta()
	out.Name, out.ResourceVersion = name, version
	return out
}

// rulesOver are rules with Namespaces that a mute API server has.
func rulesOver(t *testing.T, clk clock.Clock, m *mute) (*Rules, *Namespaces, *prometheus.Registry) {
	t.Helper()
	p := platformOver(t, newSource())
	start(t, p)
	n := bare(clk)
	n.reader, n.cache = m, m
	registry := prometheus.NewRegistry()
	rules := NewRules(p, n, clk, logr.Discard(), registry)
	return rules, n, registry
}

// silences is how often the watch of Namespaces counted as silent.
func silences(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == "namespaces" {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	t.Fatal("there is no metric")
	return 0
}

// TestDeletedBeforeTheWatchBeginsAgain: a silent watch begins again, and a Namespace was deleted
// before that. The new watch cannot show it, and does not count as silent. It does if it has shown
// the Namespace.
func TestDeletedBeforeTheWatchBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mute{at: "9", have: map[string]string{"a": "7", "b": "1", "c": "1"}}
		rules, n, registry := rulesOver(t, clock.RealClock{}, m)
		for _, name := range []string{"a", "b", "c"} {
			n.observe(namespaceIn(name, "1"))
		}
		confirm := func(when string, left, silent int) {
			t.Helper()
			sent := time.Now()
			if err := rules.confirm(t.Context(), rules.kinds[0]); err != nil || rules.kinds[0].confirmed.Before(sent) {
				t.Fatalf("%s: not confirmed: %v", when, err)
			}
			if got := silences(t, registry); got != silent || m.watches != silent || len(n.All()) != left {
				t.Errorf("%s: %d silences, %d watches, %d Namespaces: want %d and %d", when, got, m.watches, len(n.All()), silent, left)
			}
		}
		confirm("a change that the watch does not show", 3, 1)
		n.observe(namespaceIn("a", "7"))
		n.observe(namespaceIn("c", "1")) // The new watch does not show b.
		m.at = "12"
		delete(m.have, "b")
		confirm("b was deleted before the watch began again", 2, 1)
		m.at = "15"
		delete(m.have, "c")
		confirm("c was deleted after that", 1, 2)
	})
}

// TestLimitsOfConfirmations: a LIST that hangs ends soon, so that another one is sent within the
// bound of S12. After a failure the next one has longer: the API server may be slow.
func TestLimitsOfConfirmations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var took []string
		hangs := func(ctx context.Context) error {
			began := time.Now()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began).String())
			return ctx.Err()
		}
		m := &mute{fails: hangs}
		rules, _, _ := rulesOver(t, clock.RealClock{}, m)
		check := func(fails func(context.Context) error, want ...string) {
			t.Helper()
			m.fails, took = fails, nil
			for range max(1, len(want)) {
				err := rules.confirm(t.Context(), rules.kinds[0])
				if (err != nil) != (fails != nil) {
					t.Error(err)
				}
				rules.report(t.Context(), rules.kinds[0], err)
			}
			for i := range want {
				if i >= len(took) || took[i] != want[i] {
					t.Errorf("they took %v, want %v", took, want)
					return
				}
			}
		}
		check(hangs, "4s", "12s", "12s")
		m.at = "9"
		check(nil)
		check(hangs, "4s", "12s")
		check(func(context.Context) error { return errors.New("refused") })
		check(hangs, "12s")
	})
}

// still is a clock that stands still.
type still struct {
	clock.Clock
	at time.Time
}

func (s still) Now() time.Time { return s.at }

// TestWantedAfterASleep: rules that were confirmed before the machine slept are confirmed again.
func TestWantedAfterASleep(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		confirmed time.Time
		want      bool
	}{
		"just confirmed":        {now.Add(-time.Second), false},
		"confirmed a while ago": {now.Add(-renewAfter), true},
		"in the future":         {now.Add(time.Minute), true},
		"the machine has slept": {builders.Slept(now.Add(-time.Second), time.Minute), true},
	} {
		k := &ruleKind{wanted: loop.NewSignal(), confirmed: test.confirmed}
		rules := &Rules{clock: still{at: now}, kinds: []*ruleKind{k}}
		rules.Want()
		if got := len(k.wanted) > 0; got != test.want {
			t.Errorf("%s: wanted: %t, want %t", name, got, test.want)
		}
	}
}
