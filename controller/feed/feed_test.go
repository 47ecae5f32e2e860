package feed

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

func none() *namespaces { return &namespaces{of: map[string]map[string]string{}} }

// inBubble runs a test in a bubble, whose time is synthetic.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// at lets time pass inside a bubble: nothing sleeps for real.
func at(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func expect(t *testing.T, w *world, name string, there bool) {
	t.Helper()
	if w.has("ci/"+name) != there {
		t.Errorf("at %s: Job %s exists: %v, want %v", time.Now().Format("15:04:05.000"), name, !there, there)
	}
}

func TestFeedDeletesAtItsSecond(t *testing.T) {
	for name, streams := range map[string]bool{"streamed list": true, "paged list": false} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			w.streams = streams
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				w.put(finished("ci", name, "uid-"+name, 10))
			}
			w.put(finished("ci", "keep", "uid-keep", -1))
			feed, engine := start(t, w, none(), nil)
			at(time.Second)
			if !feed.Synced() || engine.Tracked() != 5 {
				t.Fatalf("synced %v, tracked %d; want all 5 with a TTL tracked, the pages' ends included", feed.Synced(), engine.Tracked())
			}
			w.put(finished("ci", "new", "uid-new", 5)) // through the watch, at 1s: due at 6s
			at(4900 * time.Millisecond)
			expect(t, w, "new", true)
			at(200 * time.Millisecond)
			expect(t, w, "new", false)
			expect(t, w, "e", true)
			at(4 * time.Second)
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				expect(t, w, name, false)
			}
			expect(t, w, "keep", true)
		})
	}
}

// S2: the name belongs to another object by the time the old one is due.
func TestRecreatedUnderTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(finished("ci", "a", "uid-old", 10))
		start(t, w, none(), nil)
		at(time.Second)
		w.cut()
		fresh := finished("ci", "a", "uid-new", 60)
		fresh.ResourceVersion = "998"
		w.locked(func() { w.objects["ci/a"] = fresh })
		at(30 * time.Second)
		expect(t, w, "a", true)
		at(40 * time.Second)
		expect(t, w, "a", false)
	})
}

func TestNamespaceThatChangesItsMind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(), none()
		since := resolution.FormatSince(time.Now().Add(-time.Hour), resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "30s"}))
		w.put(finished("ci", "a", "uid-a", -1))
		feed, engine := start(t, w, n, nil)
		at(time.Second)
		if engine.Tracked() != 0 {
			t.Fatal("an object without a TTL is tracked")
		}
		n.set("ci", map[string]string{wellknown.AnnotationDefaultTTL: "30s", wellknown.AnnotationDefaultSince: since})
		feed.RejudgeNamespace("ci")
		at(time.Second)
		if engine.Tracked() != 1 || !slices.Equal(w.lists, []string{"ci"}) {
			t.Fatalf("tracked %d after lists of %q; want 1 after listing namespace ci alone", engine.Tracked(), w.lists)
		}
		// The default is removed without a notification to the feed: it is read live before it
		// deletes.
		n.set("ci", nil)
		at(time.Minute)
		expect(t, w, "a", true)
	})
}

func TestNamespaceThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(), none()
		n.fail = true
		w.put(finished("ci", "a", "uid-a", 5))
		start(t, w, n, nil)
		at(time.Minute)
		expect(t, w, "a", true) // it may be in dry-run for all that is known
		n.mu.Lock()
		n.fail = false
		n.mu.Unlock()
		at(30 * time.Second)
		expect(t, w, "a", false) // S3
	})
}

// S4, and no look at the namespace for what cannot be due.
func TestUnfinishedIsNeverTracked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(), none()
		job := finished("ci", "a", "uid-a", 0)
		job.Status.Conditions = nil
		w.put(job)
		_, engine := start(t, w, n, nil)
		at(time.Minute)
		expect(t, w, "a", true)
		if engine.Tracked() != 0 || n.gets != 0 {
			t.Errorf("tracked %d with %d looks at the namespace, want none", engine.Tracked(), n.gets)
		}
	})
}

func TestJudge(t *testing.T) {
	now := time.Now()
	deleting := finished("ci", "a", "uid-a", 5)
	deleting.DeletionTimestamp = &metav1.Time{Time: now}
	deleting.Finalizers = []string{"example.com/hold"}
	held := finished("ci", "a", "uid-a", 5)
	held.Finalizers = []string{metav1.FinalizerOrphanDependents}
	for name, test := range map[string]struct {
		there  func(*world)
		broken bool
		want   expire.Verdict
		uid    string
		// finalizers that the engine is told of
		finalizers []string
	}{
		"due, with a finalizer": {there: func(w *world) { w.put(held) }, want: expire.Track, uid: "uid-a", finalizers: held.Finalizers},
		"gone":                  {there: func(*world) {}, want: expire.Gone},
		"due":                   {there: func(w *world) { w.put(finished("ci", "a", "uid-a", 5)) }, want: expire.Track, uid: "uid-a"},
		"TTL gone":              {there: func(w *world) { w.put(finished("ci", "a", "uid-a", -1)) }, want: expire.Keep},
		"re-created":            {there: func(w *world) { w.put(finished("ci", "a", "uid-b", 5)) }, want: expire.Track, uid: "uid-b"},
		"other, no TTL":         {there: func(w *world) { w.put(finished("ci", "a", "uid-b", -1)) }, want: expire.Gone},
		"terminating":           {there: func(w *world) { w.put(deleting) }, want: expire.BeingDeleted},
		"no namespace":          {there: func(w *world) { w.put(finished("ci", "a", "uid-a", 5)) }, broken: true},
		"re-created, terminating": {there: func(w *world) {
			other := deleting.DeepCopy()
			other.UID = "uid-b"
			w.put(other)
		}, want: expire.Gone},
		// As when its definition or its APIService is away for a moment (S3).
		"kind not served": {there: func(w *world) { w.unserved = true }, broken: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, n := newWorld(), none()
			feed, _ := start(t, w, n, nil)
			synctest.Wait()
			test.there(w)
			n.mu.Lock()
			n.fail = test.broken
			n.mu.Unlock()
			got, err := feed.Judge(t.Context(), expire.Entry{Kind: feed.triggers[0].handle, Namespace: "ci", Name: "a", UID: "uid-a"})
			if (err != nil) != test.broken {
				t.Fatalf("error %v, want one: %v", err, test.broken)
			}
			if err == nil && (got.Verdict != test.want || string(got.Object.UID) != test.uid) {
				t.Errorf("verdict %v of UID %q, want %v of %q", got.Verdict, got.Object.UID, test.want, test.uid)
			}
			if !slices.Equal(got.Finalizers, test.finalizers) {
				t.Errorf("finalizers %q, want %q", got.Finalizers, test.finalizers)
			}
		})
	}
}

// A policy decides what becomes of dependents, else the profile of the kind, else the flag.
func TestPropagation(t *testing.T) {
	for name, test := range map[string]struct{ policy, profile, flag, want metav1.DeletionPropagation }{
		"neither":            {want: metav1.DeletePropagationBackground},
		"flag":               {flag: metav1.DeletePropagationForeground, want: metav1.DeletePropagationForeground},
		"both":               {profile: metav1.DeletePropagationOrphan, flag: metav1.DeletePropagationForeground, want: metav1.DeletePropagationOrphan},
		"policy and profile": {policy: metav1.DeletePropagationForeground, profile: metav1.DeletePropagationOrphan, want: metav1.DeletePropagationForeground},
		"policy and flag":    {policy: metav1.DeletePropagationForeground, flag: metav1.DeletePropagationOrphan, want: metav1.DeletePropagationForeground},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			w.propagation = test.profile
			w.put(finished("ci", "a", "uid-a", 1))
			start(t, w, none(), func(o *Options) {
				o.Propagation = test.flag
				if test.policy != "" {
					policies := []*expression.Policy{lifecycle(t, v1alpha1.LifecyclePolicySpec{PropagationPolicy: test.policy})}
					over(o, func(r *reads) { r.policies = &lagging{cached: policies, live: policies} })
				}
			})
			at(5 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.asked) != 1 || w.asked[0].Propagation != test.want {
				t.Errorf("asked for %+v, want %q", w.asked, test.want)
			}
		})
	}
}
