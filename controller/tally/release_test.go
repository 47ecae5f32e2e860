package tally

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// A tally that is deleted with much work left has no more rounds.
func TestDeletedTallyRests(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	for i := range 2 * perRound {
		w.create(fmt.Sprint("p", i), "a", false)
	}
	p := w.process()
	p.relist(ctx)
	p.step(ctx, "a")
	tally := p.watch.tallies[0]
	if len(tally.work) == 0 {
		t.Fatal("all was done in one round: this test shows nothing")
	}
	delete(w.tallies, "a")
	p.watch.Again()
	p.relist(ctx)
	p.step(ctx, "a")
	if instant, ok := p.watch.when(tally, w.clock.Now()); ok {
		t.Errorf("it has another round at %v", instant)
	}
}

// S7: a Pod that admission has given to a tally which this process has not heard of is not
// released. It is deleted right then, and has failed.
func TestUnheardOfTally(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	p := w.process()
	p.relist(ctx)
	w.addTally("a", "a")
	w.create("p", "a", true)
	w.remove("p")
	for p.deliver() {
	}
	p.step(ctx, "")
	if w.pods["p"] == nil {
		t.Fatal("it was released")
	}
	p.settle(ctx)
	if got := w.tallies["a"].Status; got.Failed != 1 {
		t.Errorf("status %+v, want one that has failed", got)
	}
}

// Switched off, finalizers that come later are removed, too, and statuses say so.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld(t.Fatalf)
		w.lock = new(sync.Mutex)
		w.addTally("a", "a")
		w.create("p", "a", true)
		w.known = map[types.UID]bool{} // All may be released.
		condition := func() string {
			if is := meta.FindStatusCondition(w.tallies["a"].Status.Conditions, v1alpha1.ConditionReleasing); is != nil {
				return string(is.Status) + " " + is.Reason
			}
			return ""
		}
		during := ""
		w.around = func(request string, before bool) error {
			if request == "release" && before && during == "" {
				during = condition()
			}
			return nil
		}
		c := w.process().Controller
		c.options.Cluster, c.options.Clock = w, clock.RealClock{}
		go func() { _ = c.Release(ctx) }()
		synctest.Wait()
		if during != "True Disabled" || condition() != "False Released" {
			t.Errorf("Releasing is %q during and %q after, want %q and %q", during, condition(), "True Disabled", "False Released")
		}
		time.Sleep(time.Hour) // Within a bubble: no time passes.
		w.lock.Lock()
		w.create("q", "none", false)
		w.change("q", func(pod *corev1.Pod) { pod.Finalizers = []string{wellknown.FinalizerTally} })
		w.lock.Unlock()
		time.Sleep(sweepEvery + sweepAgain)
		synctest.Wait()
		if slices.Contains(w.pods["q"].Finalizers, wellknown.FinalizerTally) {
			t.Error("a Pod that got the finalizer later is left with it")
		}
		if condition() != "False Released" {
			t.Errorf("Releasing is %q", condition())
		}
	})
}

// forbidding is a cluster in which patches of one Pod are refused.
type forbidding struct {
	*view
	name  string
	code  int32
	asked int
}

func (f *forbidding) Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error) {
	if name == f.name {
		f.asked++
		return nil, denied(f.code)
	}
	return f.view.Patch(ctx, namespace, name, patch)
}

// denied is the denial of an admission webhook, which chooses the code; or 500 of etcd.
func denied(code int32) error {
	if code == http.StatusInternalServerError {
		return apierrors.NewInternalError(errors.New("etcd"))
	}
	reason := map[int32]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
	}[code]
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "w" denied the request: no`,
	}}
}

// reverting is a cluster in which a webhook takes back what patches of Pods say, or refuses them.
type reverting struct {
	*slow
	err   error
	asked atomic.Int64
}

func (r *reverting) Patch(_ context.Context, namespace, name string, _ []byte) (*metav1.PartialObjectMetadata, error) {
	r.asked.Add(1)
	out := &metav1.PartialObjectMetadata{}
	out.Namespace, out.Name, out.ResourceVersion = namespace, name, strconv.FormatInt(r.version.Add(1), 10)
	out.Finalizers = []string{wellknown.FinalizerTally}
	return out, r.err
}

// ticking counts how often the time is read.
type ticking struct {
	clock.RealClock
	read atomic.Int64
}

func (c *ticking) Now() time.Time {
	if c.read.Add(1) > 10_000 {
		time.Sleep(time.Millisecond) // The test has failed, and would never end.
	}
	return time.Now()
}

// A tally whose Pods cannot be counted has no rounds one right after another.
func TestRoundsInVain(t *testing.T) {
	for name, err := range map[string]error{"refused": denied(403), "reverted": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				api, ticks := &reverting{slow: newSlow(), err: err}, &ticking{}
				c := onRealTime(t, api, ticks)
				crowd(c, "ci", 1, 1)
				c.rounds(ctx)
				time.Sleep(10 * time.Second)
				if n, asked := ticks.read.Load(), api.asked.Load(); n > 1000 || asked > 12 || asked == 0 {
					t.Errorf("in 10s the time was read %d times, and the patch sent %d times", n, asked)
				}
				cancel()
				c.all.Wait()
			})
		})
	}
}

// A Pod whose patches fail in etcd, or a webhook denies them by whatever code, delays no other, and
// is not tried again at once. It is counted once they are not (S7).
func TestRefusedPod(t *testing.T) {
	for _, code := range []int32{403, 404, 409, 422, 429, 500} {
		for _, admitted := range []bool{true, false} {
			t.Run(fmt.Sprint(code, ", admitted: ", admitted), func(t *testing.T) {
				w, ctx := newWorld(t.Fatalf), t.Context()
				w.addTally("a", "a")
				w.create("p", "a", admitted)
				w.end("p", corev1.PodSucceeded)
				p := w.process()
				cluster := &forbidding{view: p.view, name: "p", code: code}
				p.options.Cluster = cluster
				p.relist(ctx)
				for i := range 20 {
					p.step(ctx, "a")
					w.clock.Step(2 * time.Second)
					if p.step(ctx, "a"); i < 10 && admitted && cluster.asked > 1 {
						t.Fatalf("the patch was sent %d times in %d seconds", cluster.asked, 2*(i+1))
					}
					if i >= 10 {
						w.clock.Step(chores)
						p.overdue(ctx, p.watch.space)
					}
				}
				if instant, ok := p.watch.when(p.watch.tallies[0], w.clock.Now()); ok && instant.After(w.clock.Now()) {
					t.Errorf("the next round is at %v", instant)
				}
				w.create("q", "a", admitted)
				w.end("q", corev1.PodSucceeded)
				for p.deliver() {
				}
				for range 4 {
					p.step(ctx, "a")
					w.clock.Step(2 * time.Second)
				}
				if got := w.tallies["a"].Status; got.Succeeded != 1 {
					t.Errorf("status %+v, want one that succeeded", got)
				}
				cluster.name = ""
				p.settle(ctx)
				w.expect(t, 0, 2, 0)
			})
		}
	}
}
