package feed

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/wellknown"
)

// A finish time that only Curfew saw is written down once, and a conflict does not move it.
func TestFinishTimeIsWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods = true
		w.conflict = 1
		job := finished("ci", "a", "uid-a", 5)
		job.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		at(300 * time.Millisecond)
		seen := time.Now().UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
		w.put(job)
		start(t, w, none(), nil)
		synctest.Wait()
		at(10 * time.Second)
		job.Labels = map[string]string{"touched": "yes"}
		w.put(job)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		want := []string{
			`{"metadata":{"annotations":{"curfew.dev/finished-at":"` + seen + `"},"resourceVersion":"101","uid":"uid-a"}}`,
			`{"metadata":{"annotations":{"curfew.dev/finished-at":"` + seen + `"},"resourceVersion":"102","uid":"uid-a"}}`,
		}
		if !slices.Equal(w.patches, want) {
			t.Errorf("patches\n%q\nwant\n%q", w.patches, want)
		}
	})
}

// S6: an object that starts again before its first finish time was written finishes a second time,
// and its TTL counts from then.
func TestFinishTimeOfWhatIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods = true
		w.conflict = 1
		job := finished("ci", "a", "uid-a", 5)
		job.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		w.put(job)
		start(t, w, none(), nil)
		at(time.Second)
		again := job.DeepCopy()
		again.Status.Conditions = nil
		w.put(again)
		at(time.Hour)
		w.put(job)
		want := roundUp(time.Now()).Format(time.RFC3339)
		at(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.patches) != 2 || !strings.Contains(w.patches[1], want) {
			t.Errorf("patches %q, want the second to say %s", w.patches, want)
		}
	})
}

// S3, S6: where the controller's clock is behind that of the API server, a finish time that counts
// is written, once.
func TestFinishTimeByAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods = true
		w.writes = true
		job := finished("ci", "a", "uid-a", 5)
		job.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		job.CreationTimestamp = metav1.NewTime(time.Now().Add(30 * time.Second))
		w.put(job)
		start(t, w, none(), nil)
		at(34 * time.Second)
		expect(t, w, "a", true)
		w.mu.Lock()
		if len(w.patches) != 1 {
			t.Errorf("patched %d times, want once: %q", len(w.patches), w.patches)
		}
		w.mu.Unlock()
		at(2 * time.Second)
		expect(t, w, "a", false)
	})
}

// S3: an object that is judged again may have been listed before the watch reported a newer state.
// A finish time that waits to be written on the newer state is neither dropped nor written on the
// older one.
func TestFinishTimeAndAnOlderList(t *testing.T) {
	for name, finishedBefore := range map[string]bool{"which shows it finished": true, "which shows it at work": false} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			w.pods = true
			w.writes, w.failing = true, 1
			newer := finished("ci", "a", "uid-a", 5)
			newer.Status.Conditions[0].LastTransitionTime = metav1.Time{}
			older := newer.DeepCopy()
			if !finishedBefore {
				older.Status.Conditions = nil
			}
			w.put(older)
			feed, _ := start(t, w, none(), nil)
			synctest.Wait()
			newer.Labels = map[string]string{"touched": "yes"}
			w.listed = func() {
				w.put(newer)
				synctest.Wait()
			}
			feed.RejudgeNamespace("ci")
			at(4 * time.Second)
			expect(t, w, "a", true)
			at(4 * time.Second)
			expect(t, w, "a", false)
		})
	}
}

// A pending finish time is forgotten with its object, by the next list at the latest.
func TestFinishTimeOfWhatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		gone  func(w *world, key string)
		after time.Duration
	}{
		"the watch shows it":  {(*world).remove, time.Second},
		"the watch misses it": {(*world).lose, time.Minute},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			w.pods, w.conflict = true, 1<<30
			w.put(untimed("a"))
			feed, _ := start(t, w, none(), func(o *Options) { o.RelistEvery = time.Minute })
			at(30 * time.Second)
			known := len(feed.finishes.of)
			test.gone(w, "ci/a")
			at(test.after)
			if left := len(feed.finishes.of); known != 1 || left != 0 {
				t.Errorf("%d finish times before, and %d after the deletion; want 1 and 0", known, left)
			}
		})
	}
}

// untimed is a finished Job, to be read as a Pod, that does not say when it finished.
func untimed(name string) *batchv1.Job {
	job := finished("ci", name, "uid-"+name, 5)
	job.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	return job
}

// S6: a finish time is written by the API server's clock, however far the local one is behind, and
// not while the former is not known.
func TestFinishTimeIsTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods, w.writes = true, true
		job := untimed("a")
		job.CreationTimestamp = metav1.NewTime(time.Now().Add(-3 * time.Hour))
		w.put(job)
		known := time.Now().Add(20 * time.Second)
		want := roundUp(time.Now())
		start(t, w, none(), func(o *Options) {
			o.Clock = behind{by: time.Hour} // and the engine's is right
			o.ServerTime = func(context.Context) (time.Time, error) {
				if time.Now().Before(known) {
					return time.Time{}, errors.New("the API server's time is not known")
				}
				return time.Now(), nil
			}
		})
		at(19 * time.Second)
		if n := len(w.patched()); n != 0 {
			t.Errorf("%d stamps before the time is known", n)
		}
		at(20 * time.Second)
		if got := w.patched(); len(got) != 1 || !strings.Contains(got[0], want.Format(time.RFC3339)) {
			t.Errorf("patches %q, want one that says %s", got, want)
		}
	})
}

type behind struct {
	clock.RealClock
	by time.Duration
}

func (b behind) Now() time.Time                  { return b.RealClock.Now().Add(-b.by) }
func (b behind) Since(t time.Time) time.Duration { return b.Now().Sub(t) }

// Nothing is written in dry-run, be it the controller's or a namespace's. What would be deleted is
// reported, at its second.
func TestDryRunReportsWhatHasNoFinishTime(t *testing.T) {
	for name, flag := range map[string]bool{"of the controller": true, "of the namespace": false} {
		inBubble(t, name, func(t *testing.T) {
			w, n := newWorld(), none()
			w.pods = true
			if !flag {
				n.set("ci", map[string]string{wellknown.AnnotationMode: "dry-run"})
			}
			w.put(untimed("a"))
			began := time.Now()
			var reported []time.Duration
			engine, err := expire.New(expire.Options{Triggers: triggers(w), Clock: clock.RealClock{}, DryRun: flag, Log: funcr.New(func(_, line string) {
				if strings.Contains(line, `"would delete (dry run)"`) {
					reported = append(reported, time.Since(began))
				}
			}, funcr.Options{})})
			must(t, err)
			feed, _ := start(t, w, n, func(o *Options) { o.Engine = engine })
			at(time.Minute)
			if got := w.patched(); len(got) != 0 {
				t.Errorf("patched %q", got)
			}
			if len(reported) != 1 || reported[0] < 5*time.Second || reported[0] > 7*time.Second {
				t.Errorf("reported after %v, want once after its TTL of 5s", reported)
			}
			expect(t, w, "a", true)
			if flag {
				return
			}
			n.set("ci", nil) // The TTL begins once the dry run is over.
			feed.RejudgeNamespace("ci")
			at(time.Second)
			if got := w.patched(); len(got) != 1 {
				t.Errorf("patches %q after the end of dry-run, want one", got)
			}
		})
	}
}

// S3: a finish time that cannot be written delays that of no other object, and is tried again, ever
// more rarely.
func TestFinishTimeThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods, w.writes, w.denied = true, true, "a"
		w.put(untimed("a"))
		for i := range 50 {
			w.put(untimed("b" + strconv.Itoa(i)))
		}
		start(t, w, none(), nil)
		at(8 * time.Second)
		if n := w.count(); n != 1 {
			t.Errorf("%d objects are left, want the one alone that cannot be patched", n)
		}
		at(24 * time.Hour)
		tries := 0
		for _, patch := range w.patched() {
			if strings.Contains(patch, "uid-a") {
				tries++
			}
		}
		if day := int(24 * time.Hour / maxRetry); tries < day || tries > day+20 {
			t.Errorf("%d tries in a day, want one every %s", tries, maxRetry)
		}
		for i := range 20 { // at any time between two tries
			late := "late" + strconv.Itoa(i)
			w.put(untimed(late))
			at(8 * time.Second)
			expect(t, w, late, false)
			at(29 * time.Second)
		}
		w.locked(func() { w.denied = "" })
		at(maxRetry + 8*time.Second)
		expect(t, w, "a", false)
	})
}

// S6: a finished object of a kind whose status names a finish time is kept where that is missing,
// and people are told.
func TestFinishTimeIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		job := finished("ci", "a", "uid-a", 5)
		job.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		w.put(job)
		recorder := events.NewFakeRecorder(10)
		reports := NewReports(recorder, logr.Discard(), prometheus.NewRegistry())
		start(t, w, none(), func(o *Options) { o.Reports = reports })
		at(time.Minute)
		expect(t, w, "a", true)
		want := "Warning Kept does not say when it finished: its status has no usable finish time (missing, zero or the epoch): set it there, or delete the object"
		select {
		case got := <-recorder.Events:
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		default:
			t.Errorf("no report, want %q", want)
		}
	})
}
