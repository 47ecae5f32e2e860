package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// jobs is what the Jobs of Pods say, as a cache has it and live.
type jobs struct {
	mu           sync.Mutex
	cached, live *resolution.PodCounter
	err          error
	reads        int
}

func (j *jobs) counter(_ *policy.Facts, live bool) (*resolution.PodCounter, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !live {
		return j.cached, nil
	}
	j.reads++
	return j.live, j.err
}

func (j *jobs) set(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

func saying(podTTL string) *resolution.PodCounter {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "build"}}
	if podTTL != "" {
		job.Annotations = map[string]string{wellknown.AnnotationPodTTL: podTTL}
	}
	return resolution.CounterOfJob(job)
}

// podsOf starts a feed of one finished Pod of a Job.
func podsOf(t *testing.T, j *jobs, finalizers ...string) (*world, *Feed) {
	w := newWorld()
	w.pods = true
	pod := finished("ci", "a", "uid-a", -1)
	pod.Finalizers, pod.OwnerReferences = finalizers, ownedBy("batch/v1", "Job")
	pod.Spec.TTLSecondsAfterFinished = nil
	w.put(pod)
	feed, _ := start(t, w, none(), func(o *Options) { over(o, func(r *reads) { r.counters = j.counter }) })
	return w, feed
}

func TestPodOfARunningJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &jobs{cached: saying("5s"), live: saying("5s")}
		w, _ := podsOf(t, j, wellknown.FinalizerJobTracking)
		at(time.Hour)
		expect(t, w, "a", true)
		if j.reads > 0 {
			t.Errorf("the Job was read %d times for a Pod that it has not counted", j.reads)
		}
		w.mu.Lock()
		counted := w.jobs["ci/a"].DeepCopy()
		w.mu.Unlock()
		counted.Finalizers = nil
		w.put(counted)
		at(time.Second)
		expect(t, w, "a", false)
	})
}

// A cache may be behind: the Job is asked right before the DELETE, whatever decided.
func TestJobIsReadBeforeItsPodIsDeleted(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "build", nil)
	for name, test := range map[string]struct {
		live  *resolution.PodCounter
		err   error
		there bool
	}{
		"it says the same":  {live: saying("5s")},
		"it says never now": {live: saying("never"), there: true},
		"it says more":      {live: saying("2h"), there: true},
		"nothing any more":  {live: saying(""), there: true},
		"it is gone":        {there: true},
		"may not be read":   {err: forbidden, there: true},
		"does not answer":   {err: errors.New("no route"), there: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &jobs{cached: saying("5s"), live: test.live, err: test.err}
				w, feed := podsOf(t, j)
				at(time.Hour)
				expect(t, w, "a", test.there)
				if j.reads == 0 {
					t.Error("it was not asked")
				}
				j.set(func() { j.live, j.err = saying("5s"), nil })
				feed.RejudgePods("ci", "uid-job", true)
				at(10 * time.Minute)
				expect(t, w, "a", false)
			})
		})
	}
}

// Nothing deletes a Pod of a Job by itself. A Job that comes to say something reaches the Pods that
// were seen before, by a list of its Pods alone.
func TestRejudgePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &jobs{live: saying("")}
		w, feed := podsOf(t, j)
		at(time.Hour)
		expect(t, w, "a", true)
		j.set(func() { j.cached, j.live = saying("5s"), saying("5s") })
		feed.RejudgePods("ci", "uid-job", true)
		at(time.Second)
		expect(t, w, "a", false)
		if want := "ci batch.kubernetes.io/controller-uid=uid-job"; !slices.Contains(w.selectors, want) {
			t.Errorf("listed %q, want %q", w.selectors, want)
		}
	})
}

// bothWorlds is an API server with Pods and Jobs.
type bothWorlds struct{ pods, jobs *world }

func (b bothWorlds) Delete(ctx context.Context, r deletion.Request) deletion.Response {
	if r.Kind == "Pod" {
		return b.pods.Delete(ctx, r)
	}
	return b.jobs.Delete(ctx, r)
}

// Another controller finishes many Jobs, whose Pods need not have the label of the Job. What that
// changes are Pods: the Jobs themselves are deleted without a live read. One list a second finds
// the Pods by their owners, and no other Pod is judged again.
func TestJobsManagedByAnotherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		pods, jobs := newWorld(), newWorld()
		pods.pods = true
		for _, name := range []string{"own", "other"} {
			pod := finished("ci", name, "uid-"+name, -1)
			pod.OwnerReferences, pod.Spec.TTLSecondsAfterFinished = ownedBy("batch/v1", "Job"), nil
			pod.OwnerReferences[0].UID = types.UID(map[string]string{"own": "uid-7", "other": "none"}[name])
			pods.put(pod)
		}
		followed, counted := follow.NewJobs(nil), map[types.UID]int{}
		var options Options
		both, err := engine.New(engine.Options{Triggers: triggers(bothWorlds{pods: pods, jobs: jobs})})
		if err != nil {
			t.Fatal(err)
		}
		feed, _ := start(t, pods, none(), func(o *Options) {
			o.Engine = both
			over(o, func(r *reads) {
				r.counters = func(pod *policy.Facts, live bool) (*resolution.PodCounter, error) {
					counted[pod.Owner.UID]++
					return followed.PodCounter(pod), nil
				}
			})
			options = *o
		})
		followed.OnChange(feed.RejudgePods)
		kind := jobs.kind()
		kind.Observer = followed
		run(t, kind, options, jobs.cut)
		at(time.Second)
		before, lists := maps.Clone(counted), pods.listings()
		for i := range many {
			job := finished("ci", fmt.Sprint("j", i), fmt.Sprint("uid-", i), 5)
			job.Spec.ManagedBy = ptr.To("example.com/batch")
			running := job.DeepCopy()
			running.Status.Conditions = nil
			jobs.put(running)
			jobs.put(job)
			at(10 * time.Millisecond)
		}
		at(10 * time.Second)
		if jobs.count() > 0 || jobs.gets > 0 {
			t.Errorf("%d Jobs are left, and %d live reads were sent, want none", jobs.count(), jobs.gets)
		}
		if n := pods.listings() - lists; n < 2 || n > 4 {
			t.Errorf("%d lists of Pods in the two seconds in which %d Jobs finished, want 2 to 4", n, many)
		}
		if counted["uid-7"] == before["uid-7"] || counted["none"] != before["none"] {
			t.Errorf("judged %v, and %v before: want the Pod of a finished Job judged again alone", counted, before)
		}
		pods.mu.Lock()
		pods.broken = 1
		pods.mu.Unlock()
		before = maps.Clone(counted)
		feed.RejudgePods("ci", "uid-7", false)
		at(5 * time.Second)
		if counted["uid-7"] == before["uid-7"] {
			t.Error("the Pod was not judged again after a list that failed")
		}
		jobs.put(finished("ci", "late", "uid-late", 5))
		at(time.Second)
		feed.RejudgeNamespace("ci") // A PodTally has changed: that concerns Pods, too.
		at(10 * time.Second)
		if jobs.count() > 0 || jobs.gets > 0 {
			t.Errorf("%d Jobs are left, and %d live reads were sent because of Pods, want none", jobs.count(), jobs.gets)
		}
	})
}
