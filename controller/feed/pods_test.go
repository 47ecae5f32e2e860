package feed

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	pod.Labels = map[string]string{batchv1.ControllerUidLabel: "uid-owner"}
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
		counted := w.objects["ci/a"].DeepCopy()
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
		inBubble(t, name, func(t *testing.T) {
			j := &jobs{cached: saying("5s"), live: test.live, err: test.err}
			w, feed := podsOf(t, j)
			at(time.Hour)
			expect(t, w, "a", test.there)
			if j.reads == 0 {
				t.Error("it was not asked")
			}
			j.set(func() { j.live, j.err = saying("5s"), nil })
			feed.RejudgePods("ci", "uid-owner", true)
			at(10 * time.Minute)
			expect(t, w, "a", false)
		})
	}
}

// Nothing deletes a Pod of a Job by itself. A Job that comes to say something reaches the Pods that
// were seen before, even if the first list fails: by a list of the Pods that have its label, or by
// their owners, where another controller manages the Job and its Pods need not have the label.
func TestRejudgePods(t *testing.T) {
	for name, labelled := range map[string]bool{"by label": true, "by owner": false} {
		inBubble(t, name, func(t *testing.T) {
			j := &jobs{live: saying("")}
			w, feed := podsOf(t, j)
			at(time.Hour)
			expect(t, w, "a", true)
			j.set(func() { j.cached, j.live = saying("5s"), saying("5s") })
			w.locked(func() { w.broken, w.selectors = 1, nil })
			feed.RejudgePods("ci", "uid-owner", labelled)
			at(5 * time.Second)
			expect(t, w, "a", false)
			want := "ci "
			if labelled {
				want += "batch.kubernetes.io/controller-uid=uid-owner"
			}
			if !slices.Equal(w.selectors, []string{want}) {
				t.Errorf("listed %q, want %q", w.selectors, want)
			}
		})
	}
}
