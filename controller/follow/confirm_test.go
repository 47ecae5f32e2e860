package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// TestVersions: a copy lacks what a LIST shows and the watch has not shown, and nothing that the
// watch has shown after the LIST.
func TestVersions(t *testing.T) {
	type objects = map[string]uint64
	for name, test := range map[string]struct {
		have, gone objects
		list       objects
		at         uint64
		last       uint64 // LIST that the copy began with
		before     uint64 // newest state of the copy when the LIST was sent
		lacks      bool
	}{
		"nothing":                             {at: 9},
		"the same":                            {have: objects{"a": 3}, list: objects{"a": 3}, at: 9},
		"an older state":                      {have: objects{"a": 3}, list: objects{"a": 5}, at: 9, lacks: true},
		"a newer state":                       {have: objects{"a": 12}, list: objects{"a": 5}, at: 9},
		"a newer state that was not listed":   {have: objects{"a": 7}, list: objects{"a": 5}, at: 9, lacks: true},
		"a new object":                        {list: objects{"a": 5}, at: 9, lacks: true},
		"one that was deleted since":          {gone: objects{"a": 11}, list: objects{"a": 5}, at: 9},
		"its last state was seen":             {gone: objects{"a": 5}, list: objects{"a": 5}, at: 9},
		"one that was created again":          {gone: objects{"a": 4}, list: objects{"a": 5}, at: 9, lacks: true},
		"one that is deleted":                 {have: objects{"a": 3}, at: 9, lacks: true},
		"one that was created after the LIST": {have: objects{"a": 10}, at: 9},
		"one that a later list lacks":         {list: objects{"a": 5}, at: 9, last: 10},
		"one that an earlier list lacks":      {list: objects{"a": 5}, at: 9, last: 8, lacks: true},
		"restored: an older state":            {have: objects{"a": 12}, list: objects{"a": 5}, at: 9, before: 12, lacks: true},
		"restored: an object more":            {have: objects{"a": 12}, at: 9, before: 12, lacks: true},
		"restored: an object less":            {list: objects{"a": 5}, at: 9, last: 12, before: 12, lacks: true},
		"restored: the same":                  {have: objects{"a": 5}, list: objects{"a": 5}, at: 9, before: 12},
	} {
		v := &versions{have: test.have, gone: test.gone, at: test.last}
		key := v.lacks(&listing{at: strconv.FormatUint(test.at, 10), have: test.list, before: test.before})
		if (key != "") != test.lacks {
			t.Errorf("%s: lacks %q", name, key)
		}
	}
	if key := (&versions{have: objects{"a": 3}}).lacks(unservedListing(time.Now())); key != "a" {
		t.Error("objects of a kind that is not served any more are not missed")
	}
}

// bare are Namespaces without a cache.
func bare(clk clock.Clock) *Namespaces {
	return &Namespaces{
		clock: clk, log: logr.Discard(), known: map[string]*resolution.NamespacePolicy{}, metas: map[string]*metav1.PartialObjectMetadata{},
	}
}

// TestStaleWatchAfterAList: what a LIST showed stays, whatever a watch that begins again shows, and
// newer states replace it.
func TestStaleWatchAfterAList(t *testing.T) {
	meta := func(version string, annotations map[string]string) *metav1.PartialObjectMetadata {
		out := NamespaceMeta()
		out.Name, out.ResourceVersion, out.Annotations = "ci", version, annotations
		return out
	}
	n := bare(clocktesting.NewFakeClock(noon))
	changed := 0
	n.OnChange(func(string) { changed++ })
	is := func(when, version string) {
		t.Helper()
		got := ""
		if known := n.metas["ci"]; known != nil {
			got = known.ResourceVersion
		}
		if got != version || n.versions.have["ci"] != versionOf(version) {
			t.Errorf("%s: resourceVersion %q, %d, want %q", when, got, n.versions.have["ci"], version)
		}
	}
	n.observe(meta("5", nil))
	dry := meta("7", map[string]string{wellknown.AnnotationMode: "dry-run"})
	read := &listing{at: "9", have: map[string]uint64{"ci": 7}, changed: []*metav1.PartialObjectMetadata{dry}}
	n.catchUp(t.Context(), read)
	is("after the LIST", "7")
	if changed != 1 || n.versions.lacks(read) != "" {
		t.Errorf("%d changes were reported", changed)
	}
	n.observe(meta("5", nil))
	is("after a watch that begins again", "7")
	n.forget(meta("6", nil))
	is("after the deletion of what was there before", "7")
	n.observe(meta("11", nil))
	is("after a change", "11")
	n.catchUp(t.Context(), read)
	is("after the LIST once more, which is older", "11")
	n.catchUp(t.Context(), &listing{at: "20", have: map[string]uint64{}})
	is("after a LIST without it", "")
	n.observe(meta("11", nil))
	is("after another watch that begins again", "")
	n.observe(meta("21", nil))
	is("when it is created again", "21")
	// etcd was restored from a backup: the LIST is right.
	n.catchUp(t.Context(), &listing{at: "30", have: map[string]uint64{"ci": 8}, changed: []*metav1.PartialObjectMetadata{meta("8", nil)}})
	is("after the restore", "8")
	// A restore to a revision before that of the copy.
	n.observe(meta("41", nil))
	n.catchUp(t.Context(), &listing{
		at: "35", have: map[string]uint64{"ci": 7}, before: n.versions.latest(), changed: []*metav1.PartialObjectMetadata{meta("7", nil)},
	})
	is("after the restore to an older revision", "7")
	n.observe(meta("36", nil))
	is("after a change that follows", "36")
	if latest := n.versions.latest(); latest != 36 {
		t.Errorf("the newest resourceVersion is %d, want 36", latest)
	}
}

// listed is a reader of Namespaces.
type listed struct {
	client.Reader
	n  *Namespaces
	at int
}

// List changes a Namespace while it is on its way, or just before: the watch shows that 300 ms
// later.
func (l *listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	out := list.(*metav1.PartialObjectMetadataList)
	for i := range 50 {
		meta := NamespaceMeta()
		meta.Name, meta.ResourceVersion = fmt.Sprintf("n%d", i), "1"
		if rand.IntN(3) == 0 {
			l.at++
			meta.ResourceVersion = strconv.Itoa(l.at)
			time.AfterFunc(300*time.Millisecond, func() { l.n.observe(meta.DeepCopy()) })
		} else if known := l.n.metas[meta.Name]; known != nil {
			meta.ResourceVersion = known.ResourceVersion
		}
		out.Items = append(out.Items, *meta)
	}
	out.ResourceVersion = strconv.Itoa(l.at)
	<-time.After(20 * time.Millisecond)
	return nil
}

// TestLateEvents: Namespaces that change all the time, and a watch that shows it a little late, are
// no silent watch, and confirmed.
func TestLateEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := platformOver(t, newSource())
		start(t, p)
		n := bare(clock.RealClock{})
		n.reader = &listed{n: n, at: 100}
		for i := range 50 {
			meta := NamespaceMeta()
			meta.Name, meta.ResourceVersion = fmt.Sprintf("n%d", i), "1"
			n.observe(meta)
		}
		rules := NewRules(p, n, clock.RealClock{}, logr.Discard(), nil)
		running(t, rules.Run)
		after(time.Second)
		for second := range 60 {
			rules.Want()
			after(time.Second)
			if age := time.Since(rules.Confirmed()); age > 11*time.Second {
				t.Fatalf("second %d: confirmed %s ago", second, age)
			}
		}
		if len(n.floor) > 0 {
			t.Error("the watch counted as silent")
		}
	})
}

// TestSilentWatchBeginsAgain (S12): the watches of policies and profiles stay open and silent. They
// begin again with a list, which confirms the rules.
func TestSilentWatchBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies, profiles := deaf{newSource()}, deaf{newSource()}
		p := platformWith(t, policies, profiles)
		start(t, p)
		rules := NewRules(p, bare(clock.RealClock{}), clock.RealClock{}, logr.Discard(), nil)
		after(time.Second)
		policies.Put(lifecyclePolicy(`"30s"`, 1))
		profiles.Put(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "things"}}})
		for _, k := range rules.kinds[1:] {
			if err := rules.confirm(t.Context(), k); err != nil {
				t.Errorf("%s are not confirmed: %v", k.resource, err)
			}
		}
	})
}
