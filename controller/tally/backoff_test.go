package tally

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// failing is an API server that refuses to write statuses until an instant. During each such
// request the watch shows one more Pod.
type failing struct {
	*slow
	until   time.Time
	begin   func()
	written time.Time
}

func (f *failing) WriteStatus(ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (string, error) {
	f.begin()
	if time.Now().Before(f.until) {
		time.Sleep(5 * time.Millisecond)
		return "", errors.New("no answer")
	}
	if f.written.IsZero() {
		f.written = time.Now()
	}
	return f.slow.WriteStatus(ctx, namespace, name, uid, version, status)
}

// mute is an API server that never answers the first write of a status.
type mute struct {
	*slow
	asked bool
}

func (m *mute) WriteStatus(ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (string, error) {
	if !m.asked {
		m.asked = true
		<-ctx.Done()
		return "", ctx.Err()
	}
	return m.slow.WriteStatus(ctx, namespace, name, uid, version, status)
}

// A write of a status that gets no answer is given up, and sent again.
func TestStatusWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		api := &mute{slow: newSlow()}
		c := onRealTime(t, api, clock.RealClock{})
		crowd(c, "ci", 1, 1)
		c.rounds(ctx)
		time.Sleep(time.Minute)
		synctest.Wait()
		if counted := api.counted("ci/t0"); counted != 1 {
			t.Errorf("%d Pods are counted a minute after a write without an answer, want 1", counted)
		}
		cancel()
		c.all.Wait()
	})
}

// A tally whose status cannot be written waits after each failure, also where the watch shows Pods
// during the request.
func TestChangesDoNotShortenTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		api := &failing{slow: newSlow(), until: time.Now().Add(20 * time.Second)}
		c := onRealTime(t, api, clock.RealClock{})
		crowd(c, "ci", 1, 1)
		w := c.space("ci")
		var attempts []time.Time
		api.begin = func() {
			attempts = append(attempts, time.Now())
			if len(attempts) > 100 || !time.Now().Before(api.until) {
				return
			}
			of := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
			of.Namespace, of.Name, of.ResourceVersion, of.Finalizers = "ci", fmt.Sprint("n", len(attempts)), "2", []string{wellknown.FinalizerTally}
			of.UID, of.Labels = types.UID("uid-"+of.Name), map[string]string{"app": "t0"}
			w.observe(of, false)
		}
		c.rounds(ctx)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for i := 1; i < len(attempts) && attempts[i-1].Before(api.until); i++ {
			if wait := attempts[i].Sub(attempts[i-1]); wait < retryFirst {
				t.Errorf("attempt %d comes %s after a failed one, want at least %s", i, wait, retryFirst)
			}
		}
		if late := api.written.Sub(api.until); api.written.IsZero() || late > 35*time.Second {
			t.Errorf("after an outage of 20s the status is written %s late", late)
		}
		cancel()
		c.all.Wait()
	})
}

// unwatched is a cluster whose watches end soon.
type unwatched struct {
	Cluster
	lists int
	open  func() (watch.Interface, error)
}

func (u *unwatched) Tallies(context.Context, string) ([]*StoredTally, error) { return nil, nil }

func (u *unwatched) Pods(context.Context, string, metav1.ListOptions) (*corev1.PodList, error) {
	u.lists++
	time.Sleep(2 * time.Millisecond)
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
}

func (u *unwatched) Watch(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
	return u.open()
}

// Pods whose watch ends at once are listed less and less often, as are those of PodTallies that come
// and go all the time.
func TestWatchesThatEndAtOnce(t *testing.T) {
	stays := func() (watch.Interface, error) { return watch.NewFake(), nil }
	for name, c := range map[string]struct {
		open    func() (watch.Interface, error)
		changes bool
	}{
		"without an event": {open: func() (watch.Interface, error) { w := watch.NewFake(); w.Stop(); return w, nil }},
		"expired": {open: func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			status := apierrors.NewResourceExpired("too old").Status()
			w.Error(&status)
			return w, nil
		}},
		"refused":              {open: func() (watch.Interface, error) { return nil, apierrors.NewTooManyRequests("busy", 1) }},
		"PodTallies that come": {open: stays, changes: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cluster := &unwatched{open: c.open}
				of := onRealTime(t, cluster, clock.RealClock{})
				w := of.newSpace("ci")
				w.cancel = cancel
				of.all.Go(func() { of.follow(ctx, w) })
				for range 60 {
					if c.changes {
						w.again.Set()
					}
					time.Sleep(time.Second)
				}
				if synctest.Wait(); cluster.lists > 20 || cluster.lists < 5 {
					t.Errorf("the Pods were listed %d times in a minute", cluster.lists)
				}
				cancel()
				of.all.Wait()
			})
		})
	}
}

// A change of PodTallies during the wait before the next list is not lost when the watch ends.
func TestListsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t.Fatalf).process()
		p.watch.again.Set()
		events := watch.NewFake()
		go func() {
			synctest.Wait()
			events.Stop()
		}()
		_, again, err := p.drain(t.Context(), p.watch, "1", events, p.options.Clock.NewTimer(time.Hour))
		if again || err != nil || len(p.watch.again) != 1 {
			t.Errorf("again %t, %v, %d signals", again, err, len(p.watch.again))
		}
	})
}
