package feed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// A namespace says dry-run, or has a bound, a moment before explicit TTLs and stamped defaults in
// it are due, and judging all of its objects again takes longer than that. The same for a policy,
// which a feed hears of with RejudgeAll.
func TestChangeOfANamespaceHoldsBeforeItsObjectsAreJudgedAgain(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"dry-run":           {wellknown.AnnotationMode: "dry-run"},
		"a longer minimum":  {wellknown.AnnotationMinTTL: "1h"},
		"an unreadable one": {wellknown.AnnotationMinTTL: "soon"},
		"a policy":          nil,
	} {
		inBubble(t, name, func(t *testing.T) {
			w, n, p := newWorld(), none(), &lagging{}
			w.put(finished("ci", "a", "uid-a", 5))
			stamped := finished("ci", "b", "uid-b", 5)
			stamped.Annotations = map[string]string{wellknown.AnnotationTTLSource: "namespace/ci"}
			w.put(stamped)
			w.put(finished("other", "c", "uid-c", 5))
			feed, _ := start(t, w, n, func(o *Options) { over(o, func(r *reads) { r.policies = p }) })
			change, low := feed.RejudgeAll, v1alpha1.Duration("1h")
			if annotations != nil {
				change = func() { feed.RejudgeNamespace("ci") }
			}
			at(time.Second)
			judging := make(chan struct{})
			w.locked(func() { w.listed = func() { <-judging } })
			n.set("ci", annotations)
			if annotations == nil {
				p.set(lifecycle(t, v1alpha1.LifecyclePolicySpec{Bounds: &v1alpha1.Bounds{MinTTL: &low}}))
			}
			change()
			at(10 * time.Second)
			expect(t, w, "a", true)
			expect(t, w, "b", true)
			if w.has("other/c") != (annotations == nil) {
				t.Error("another namespace waits, too, or not for a policy")
			}
			close(judging)
			n.set("ci", nil)
			p.set()
			change()
			at(10 * time.Second)
			expect(t, w, "a", false)
			expect(t, w, "b", false)
		})
	}
}

// A profile that says what becomes of dependents changed, and the feed was made by the old one.
func TestPropagationIsReadLiveForLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put(config("a", wellknown.LabelTTL, "2m"))
		propagation, policies := metav1.DeletePropagationOrphan, &lagging{}
		feeds, _ := stock(t, s, none(), func(o *Options) {
			over(o, func(r *reads) {
				r.policies = policies
				r.profile = func() *expression.Profile {
					return &expression.Profile{Profile: &policy.Profile{Kind: configMap}, Propagation: propagation}
				}
			})
		}, LabelledKind{Propagation: metav1.DeletePropagationForeground})
		expect := func(want metav1.DeletionPropagation) {
			t.Helper()
			got, err := feeds[0].Judge(t.Context(), expire.Entry{Namespace: "ci", Name: "a"})
			if err != nil || got.Object.Propagation != want {
				t.Errorf("%q, %v; want %q", got.Object.Propagation, err, want)
			}
		}
		expect(metav1.DeletePropagationOrphan)
		policies.live = []*expression.Policy{lifecycle(t, v1alpha1.LifecyclePolicySpec{PropagationPolicy: metav1.DeletePropagationForeground})}
		expect(metav1.DeletePropagationForeground)
		policies.live, propagation = nil, "" // The profile leaves it to the flag now, which says nothing.
		expect(metav1.DeletePropagationBackground)
		judged, err := feeds[0].Judge(t.Context(), expire.Entry{Namespace: "ci", Name: "a"})
		if err != nil || !judged.Agrees(t.Context()) {
			t.Errorf("the caches do not agree with the live judgement, %v", err)
		}
		propagation = metav1.DeletePropagationOrphan // The profile changes during a live judgement.
		if judged.Agrees(t.Context()) {
			t.Error("the caches agree with a live judgement by the old profile")
		}
	})
}

// A profile was corrected and no watch has reported it, as after an outage: what the old one says
// is due is not deleted (S1), and is as soon as a feed with the new one agrees.
func TestCorrectedProfileIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		old, corrected := runProfile(t), runProfile(t)
		old.Generation, corrected.Generation = 1, 2
		served := old
		over(&r.options, func(r *reads) { r.profile = func() *expression.Profile { return served } })
		for _, name := range []string{"before", "meanwhile"} {
			r.run(name, wellknown.AnnotationTTL, map[string]string{"before": "5s", "meanwhile": "10s"}[name])
			r.condition(name, "Complete", "Done")
		}
		feed, stop := r.follow(old)
		at(time.Second)
		r.engine.RecheckNamespace("ci") // so that it is judged live, as after an outage
		at(7 * time.Second)
		r.expect("while the profile is the same", "meanwhile Complete=True/Done; ")
		served = corrected
		// That is no evidence against the source of an object.
		if _, err := feed.Judge(t.Context(), expire.Entry{Namespace: "ci", Name: "meanwhile"}); !errors.Is(err, expire.ErrRulesChanged) {
			t.Errorf("%v, want %v", err, expire.ErrRulesChanged)
		}
		r.engine.RecheckNamespace("ci")
		at(time.Minute)
		r.expect("judged by the old profile", "meanwhile Complete=True/Done; ")
		stop()
		r.follow(corrected, feed.Handles()...)
		at(time.Minute)
		r.expect("judged by the new profile", "")
	})
}

// meddled is a namespaceReader with something that happens right after the cache has answered.
type meddled struct {
	*namespaces
	then func()
}

func (m *meddled) Get(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	read, err := m.namespaces.Get(ctx, name)
	if m.then != nil {
		m.then()
	}
	return read, err
}

// A feed has read the namespace, the change is told, and only then does the feed tell what it
// thinks.
func TestChangeWhileAFeedJudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(), none()
		w.put(finished("ci", "a", "uid-a", 5))
		reader := &meddled{namespaces: n}
		start(t, w, n, func(o *Options) {
			over(o, func(r *reads) { r.namespaces = reader })
			reader.then = func() {
				n.set("ci", map[string]string{wellknown.AnnotationMode: "dry-run"})
				o.Engine.RecheckNamespace("ci")
				reader.then = nil
			}
		})
		at(10 * time.Second)
		expect(t, w, "a", true)
	})
}

// Whether Kueue is installed is asked right before an object with MultiKueue's label is deleted, and
// of no other. Kueue may have been installed since the cache was filled: the copies stay.
func TestKueueIsAskedForRightBeforeADeletion(t *testing.T) {
	for name, test := range map[string]struct {
		cached, live bool // Kueue is surely absent
		fails        error
		unlabelled   bool
		there        bool
		asked        int
	}{
		"absent":                  {cached: true, live: true, asked: 1},
		"installed":               {there: true},
		"installed since":         {cached: true, there: true, asked: 1},
		"cannot be asked":         {cached: true, live: true, fails: errors.New("no answer"), there: true, asked: 1},
		"installed, but no label": {unlabelled: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, asked := newWorld(), 0
			job := finished("ci", "a", "uid-a", 5)
			if job.Labels = map[string]string{wellknown.LabelMultiKueueOrigin: "hub"}; test.unlabelled {
				job.Labels = nil
			}
			w.put(job)
			kueue := func(live bool) (bool, error) {
				if !live {
					return test.cached, nil
				}
				asked++
				return test.live, test.fails
			}
			start(t, w, none(), func(o *Options) { over(o, func(r *reads) { r.kueue = kueue }) })
			at(5500 * time.Millisecond)
			expect(t, w, "a", test.there)
			if asked != test.asked {
				t.Errorf("asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

// A tenant changes the settings of 5,000 of its Jobs, each of which costs a list of its Pods. The
// namespace of another tenant is judged again after one of these lists.
func TestJobsDelayOnlyTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(), none()
		job := finished("ci", "a", "uid-a", -1)
		job.CreationTimestamp = metav1.Now()
		w.put(job)
		slow := func() Kind {
			kind := w.kind()
			list := kind.List
			kind.List = func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
				<-time.After(20 * time.Millisecond)
				return list(ctx, namespace, options)
			}
			return kind
		}
		feed, _ := startKind(t, w, n, slow, nil)
		at(time.Second)
		for i := range 5000 {
			feed.RejudgePods("tenant", types.UID(fmt.Sprint("job-", i)), true)
		}
		n.set("ci", map[string]string{wellknown.AnnotationDefaultTTL: "1s", wellknown.AnnotationBackfill: "true"})
		feed.RejudgeNamespace("ci")
		at(70 * time.Second) // The engine has no backfill in its first minute.
		expect(t, w, "a", false)
	})
}
