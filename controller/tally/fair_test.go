package tally

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// slow is an API server in which each request takes a while.
type slow struct {
	Cluster
	version atomic.Int64

	mu       sync.Mutex
	statuses map[string]*v1alpha1.PodTallyStatus
	writes   int
}

func (s *slow) WriteStatus(_ context.Context, namespace, name string, _ types.UID, _ string, status *v1alpha1.PodTallyStatus) (string, error) {
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[namespace+"/"+name], s.writes = status.DeepCopy(), s.writes+1
	return strconv.FormatInt(s.version.Add(1), 10), nil
}

func (s *slow) Patch(_ context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error) {
	time.Sleep(10 * time.Millisecond)
	var body struct{ Metadata patchMeta }
	if err := json.Unmarshal(patch, &body); err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: body.Metadata.UID, ResourceVersion: strconv.FormatInt(s.version.Add(1), 10), Annotations: map[string]string{},
	}}
	for key, value := range body.Metadata.Annotations {
		out.Annotations[key] = *value
	}
	return out, nil
}

func (s *slow) counted(tally string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status := s.statuses[tally]; status != nil {
		return status.Succeeded
	}
	return 0
}

func newSlow() *slow {
	out := &slow{statuses: map[string]*v1alpha1.PodTallyStatus{}}
	out.version.Store(1)
	return out
}

// onRealTime is a controller that counts on real time.
func onRealTime(t *testing.T, cluster Cluster, clk clock.Clock) *Controller {
	t.Helper()
	return New(Options{
		Tallies: &world{}, Cluster: cluster, Clock: clk, Log: logr.Discard(), Registerer: prometheus.NewRegistry(),
		ServerTime: func(context.Context) (time.Time, error) { return time.Now(), nil },
	})
}

// crowd begins to count in a namespace with many tallies of many finished Pods each.
func crowd(c *Controller, namespace string, tallies, pods int) {
	c.mu.Lock()
	w := c.newSpace(namespace)
	c.mu.Unlock()
	var all []*tally
	for i := range tallies {
		object := &v1alpha1.PodTally{}
		object.Namespace, object.Name, object.UID = namespace, fmt.Sprint("t", i), types.UID(fmt.Sprint(namespace, "-t", i))
		object.Spec.Selector.MatchLabels = map[string]string{"app": object.Name}
		compiled, _ := match.Compile(object)
		all = append(all, &tally{name: object.Name, uid: object.UID, match: compiled})
	}
	w.setTallies(all)
	w.beginList()
	for i := range pods {
		w.observe(finishedPod(namespace, fmt.Sprint("p", i), i%tallies), false)
	}
	w.endList("1")
}

// finishedPod has succeeded, and one of the tallies has to count it.
func finishedPod(namespace, name string, tally int) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	pod.Namespace, pod.Name, pod.ResourceVersion, pod.Finalizers = namespace, name, "1", []string{wellknown.FinalizerTally}
	pod.UID, pod.Labels = types.UID(namespace+"-"+name), map[string]string{"app": fmt.Sprint("t", tally)}
	return pod
}

// The few Pods of one tally are counted within seconds, whatever others have to do: a namespace
// with a thousand tallies, or one with a tally that never comes to an end.
func TestSmallTalliesAreNotStarved(t *testing.T) {
	for name, others := range map[string]struct{ tallies, pods int }{
		"a thousand tallies": {1000, 50_000},
		"a huge tally":       {1, 30_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				api := newSlow()
				c := onRealTime(t, api, clock.RealClock{})
				crowd(c, "large", others.tallies, others.pods)
				c.rounds(ctx)
				time.Sleep(time.Second) // Within a bubble: no time passes.
				crowd(c, "small", 1, 5)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if got := api.counted("small/t0"); got != 5 {
					t.Errorf("%d of 5 Pods are counted after 3s", got)
				}
				done := int64(0)
				for i := range others.tallies {
					done += api.counted(fmt.Sprint("large/t", i))
				}
				if done == int64(others.pods) {
					t.Error("all others are counted, too: this test shows nothing")
				}
				cancel()
				c.all.Wait()
			})
		})
	}
}

// Pods that finish one after another share the writes of the status, and the metrics follow.
func TestStatusWritesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		api := newSlow()
		c := onRealTime(t, api, clock.RealClock{})
		crowd(c, "ci", 1, 0)
		w, shown := c.space("ci"), []float64{}
		c.rounds(ctx)
		metric := func(from interface{ Write(*dto.Metric) error }) float64 {
			out := &dto.Metric{}
			must(t, from.Write(out))
			return out.GetCounter().GetValue() + float64(out.GetHistogram().GetSampleCount())
		}
		const pods = 1000
		for i := range pods {
			w.observe(finishedPod("ci", fmt.Sprint("p", i), 0), false)
			if time.Sleep(10 * time.Millisecond); i%200 == 199 {
				synctest.Wait()
				shown = append(shown, metric(c.metrics.counted.WithLabelValues("succeeded")))
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		shown = append(shown, metric(c.metrics.counted.WithLabelValues("succeeded")))
		if !slices.IsSorted(shown) || len(slices.Compact(slices.Clone(shown))) < len(shown) || shown[len(shown)-1] != pods {
			t.Errorf("curfew_tally_pods_total was %v, want it to grow to %d", shown, pods)
		}
		timed := c.metrics.duration.WithLabelValues("status").(prometheus.Histogram)
		if n := api.counted("ci/t0"); n != pods || api.writes < 2 || api.writes > pods/10 || metric(timed) != float64(api.writes) {
			t.Errorf("%d of %d Pods are counted with %d writes of the status, of which %v are timed", n, pods, api.writes, metric(timed))
		}
		cancel()
		c.all.Wait()
	})
}

// failing is an API server that refuses to write statuses until an instant, or does not answer.
// During each such request the watch shows one more Pod.
type failing struct {
	*slow
	silent        bool
	until         time.Time
	begin, failed func()
	written       time.Time
}

func (f *failing) WriteStatus(ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (string, error) {
	f.begin()
	if time.Now().Before(f.until) {
		defer f.failed()
		if f.silent {
			<-ctx.Done()
		}
		time.Sleep(5 * time.Millisecond)
		return "", cmp.Or(ctx.Err(), errors.New("refused"))
	}
	if f.written.IsZero() {
		f.written = time.Now()
	}
	return f.slow.WriteStatus(ctx, namespace, name, uid, version, status)
}

// A tally whose status cannot be written, or whose write gets no answer, waits after each failure,
// also where the watch shows Pods during the request. Then it is written.
func TestChangesDoNotShortenTheBackoff(t *testing.T) {
	for name, silent := range map[string]bool{"an error": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				api := &failing{slow: newSlow(), silent: silent, until: time.Now().Add(20 * time.Second)}
				c := onRealTime(t, api, clock.RealClock{})
				crowd(c, "ci", 1, 1)
				w := c.space("ci")
				var began, ended []time.Time
				api.begin = func() {
					began = append(began, time.Now())
					if len(began) > 100 || !time.Now().Before(api.until) {
						return
					}
					w.observe(finishedPod("ci", fmt.Sprint("n", len(began)), 0), false)
				}
				api.failed = func() { ended = append(ended, time.Now()) }
				c.rounds(ctx)
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				for i, end := range ended {
					if wait := began[i+1].Sub(end); wait < retryFirst {
						t.Errorf("attempt %d comes %s after a failed one, want at least %s", i+1, wait, retryFirst)
					}
				}
				if late := api.written.Sub(api.until); len(ended) == 0 || api.written.IsZero() || late > 35*time.Second || api.counted("ci/t0") < 2 {
					t.Errorf("after an outage of 20s the status is written %s late, with %d Pods", late, api.counted("ci/t0"))
				}
				cancel()
				c.all.Wait()
			})
		})
	}
}

// empty is a cluster without PodTallies.
type empty struct {
	Cluster
	lists atomic.Int32
	pod   atomic.Pointer[corev1.Pod]
}

func (e *empty) Tallies(context.Context, string) ([]*StoredTally, error) { return nil, nil }

func (e *empty) Pods(context.Context, string, metav1.ListOptions) (*corev1.PodList, error) {
	e.lists.Add(1)
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	if pod := e.pod.Load(); pod != nil {
		list.Items = append(list.Items, *pod)
	}
	return list, nil
}

func (e *empty) Watch(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// The Pods of PodTallies that come and go all the time are listed less and less often. A namespace
// without any is left in the end.
func TestPodTalliesThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &empty{}
		c := onRealTime(t, cluster, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		w := c.newSpace("ci")
		w.cancel = cancel
		c.all.Go(func() { c.follow(ctx, w) })
		for range 60 {
			w.Again()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if lists := cluster.lists.Load(); lists > 20 || lists < 5 {
			t.Errorf("the Pods were listed %d times in a minute", lists)
		}
		time.Sleep(linger - 2*time.Minute)
		synctest.Wait()
		if c.space("ci") == nil {
			t.Error("the namespace was left too early")
		}
		cluster.pod.Store(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: "5", Finalizers: []string{wellknown.FinalizerTally}}})
		time.Sleep(linger)
		cluster.pod.Store(nil)
		time.Sleep(linger - time.Minute)
		synctest.Wait()
		if c.space("ci") == nil {
			t.Error("the namespace was left although a Pod had the finalizer")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if c.space("ci") != nil || ctx.Err() == nil {
			t.Error("the namespace is never left")
		}
		cancel()
		c.all.Wait()
	})
}
