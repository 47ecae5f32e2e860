package serving

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

const (
	expiring = "expiring"
	// leaseFor is how long a successor waits for a leader that was killed.
	leaseFor = 10 * time.Second
)

// While objects expire, the controller that leads is told to stop, and its successor is killed. The
// first gives up its lease, that of the second has to end. No object is deleted early, twice, or
// never.
func TestHandOver(t *testing.T) {
	objects, window := 500, 8*time.Second
	if suite.full {
		objects, window = 10000, 120*time.Second
	}
	h := newHandOver(t)
	first := h.start("controller-1")
	h.leads(first, time.Now())
	second := h.start("controller-2")
	h.create(objects, window)

	h.awaitDeleted(objects / 4)
	instant := time.Now()
	go func() { h.stop(first) }()
	if !h.leads(second, instant) {
		t.Error("the lease was not given up")
	}
	t.Logf("note: SIGTERM: the successor led after %s", time.Since(instant).Round(time.Millisecond))
	third := h.start("controller-3")

	h.awaitDeleted(objects / 2)
	instant = time.Now()
	h.ok(second.Kill())
	h.leads(third, instant)
	t.Logf("note: kill -9: the successor led after %s", time.Since(instant).Round(time.Millisecond))
	h.awaitDeleted(objects)
	h.stop(third)
	h.judge(objects)
}

// handOver is a namespace of objects that expire, and what became of them.
type handOver struct {
	*fixture
	leader  watch.Interface
	proxies []*harness.Proxy

	mu      sync.Mutex
	expiry  map[string]time.Time
	deleted map[string][]time.Time
	changed chan struct{}
}

func newHandOver(t *testing.T) *handOver {
	t.Helper()
	h := &handOver{fixture: &fixture{T: t}, expiry: map[string]time.Time{}, deleted: map[string][]time.Time{}, changed: make(chan struct{}, 1)}
	// Without webhooks: they have tests of their own.
	h.ok(suite.cluster.Install(t.Context(), 1))
	h.kubectl("", "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "curfew", "curfew-kinds", "--ignore-not-found")
	h.kubectl(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"expiring-configmaps",
		"labels":{"curfew.dev/aggregate-to-controller":"true"}},
		"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","watch","delete"]}]}`, "apply", "-f", "-")
	made, err := suite.cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: expiring}}, metav1.CreateOptions{})
	h.ok(err)
	h.leader = h.watch(made.ResourceVersion, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = "metadata.name=curfew-controller"
		return suite.cluster.Client.CoordinationV1().Leases(harness.Namespace).Watch(ctx, options)
	})
	events := h.watch(made.ResourceVersion, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = wellknown.LabelTTL
		return suite.cluster.Client.CoreV1().ConfigMaps(expiring).Watch(ctx, options)
	})
	go func() {
		for event := range events.ResultChan() {
			if gone, ok := event.Object.(*corev1.ConfigMap); ok && event.Type == watch.Deleted {
				h.mu.Lock()
				h.deleted[gone.Name] = append(h.deleted[gone.Name], time.Now())
				h.mu.Unlock()
				select {
				case h.changed <- struct{}{}:
				default:
				}
			}
		}
	}()
	return h
}

// watch resumes where the API server ended a watch, as it does when a busy machine reads slowly.
func (h *handOver) watch(since string, start func(context.Context, metav1.ListOptions) (watch.Interface, error)) watch.Interface {
	h.Helper()
	out, err := watchtools.NewRetryWatcherWithContext(h.Context(), since, &cache.ListWatch{WatchFuncWithContext: start})
	h.ok(err)
	h.Cleanup(out.Stop)
	return out
}

// start runs a controller that takes part in the election, behind a proxy that keeps its DELETEs.
func (h *handOver) start(name string) *harness.Curfew {
	h.Helper()
	proxy, err := harness.NewProxy(suite.cluster.Config)
	h.ok(err)
	h.Cleanup(proxy.Close)
	h.proxies = append(h.proxies, proxy)
	curfew, err := suite.cluster.StartController(h.Context(), harness.CurfewOptions{Name: name, Proxy: proxy, Args: []string{"--lease-duration", leaseFor.String()}})
	h.ok(err)
	h.Cleanup(func() { h.ok(curfew.Kill()) })
	return curfew
}

// leads waits until another process holds the lease than before an instant, and reports whether
// the one before had given it up.
func (h *handOver) leads(next *harness.Curfew, since time.Time) (givenUp bool) {
	h.Helper()
	limited, end := harness.Waiting(h.Context(), h.Name()+": "+next.Name+" to lead")
	defer end()
	for {
		select {
		case event := <-h.leader.ResultChan():
			lease, ok := event.Object.(*coordinationv1.Lease)
			switch {
			case !ok:
			case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
				givenUp = true
			case lease.Spec.AcquireTime.After(since.Add(-time.Second)):
				return givenUp
			}
		case <-limited.Done():
			h.Fatalf("%v\n%s", context.Cause(limited), harness.Tail(next.Log, 20))
		}
	}
}

// create makes objects that expire one after another in a window, which begins when all are there.
func (h *handOver) create(objects int, window time.Duration) {
	h.Helper()
	begin := time.Now().Add(5*time.Second + time.Duration(objects)*3*time.Millisecond)
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				left := time.Until(begin.Add(window * time.Duration(i) / time.Duration(objects))).Round(time.Second)
				made, err := suite.cluster.Client.CoreV1().ConfigMaps(expiring).Create(h.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("map-%d", i), Labels: map[string]string{wellknown.LabelTTL: left.String()}}}, metav1.CreateOptions{})
				if err != nil {
					h.Error(err)
					continue
				}
				h.mu.Lock()
				h.expiry[made.Name] = made.CreationTimestamp.Add(left)
				h.mu.Unlock()
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	all.Wait()
	if late := time.Since(begin); late > 0 {
		h.Logf("note: the last object was created %s after the first expired", late.Round(time.Millisecond))
	}
}

func (h *handOver) awaitDeleted(n int) {
	h.Helper()
	ctx, cancel := harness.Waiting(h.Context(), fmt.Sprintf("%s: %d objects to be deleted", h.Name(), n))
	defer cancel()
	for {
		h.mu.Lock()
		got := len(h.deleted)
		h.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-h.changed:
		case <-ctx.Done():
			h.Fatalf("%d objects are deleted, want %d", got, n)
		}
	}
}

// judge compares what became of each object with what should have.
func (h *handOver) judge(objects int) {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	latest := time.Duration(0)
	for name, due := range h.expiry {
		instants := h.deleted[name]
		if len(instants) != 1 {
			h.Errorf("%s was deleted %d times", name, len(instants))
			continue
		}
		if instants[0].Before(due) {
			h.Errorf("%s was deleted %s before its expiry", name, due.Sub(instants[0]))
		}
		latest = max(latest, instants[0].Sub(due))
		accepted := 0
		for _, proxy := range h.proxies {
			for _, sent := range proxy.Deletes(expiring, name) {
				if sent.Status == 200 {
					accepted++
				}
			}
		}
		if accepted > 1 {
			h.Errorf("%d DELETEs of %s were accepted", accepted, name)
		}
	}
	h.Logf("note: %d objects, the latest %s after its expiry", len(h.expiry), latest.Round(time.Millisecond))
	if len(h.expiry) != objects {
		h.Errorf("%d objects, want %d", len(h.expiry), objects)
	}
}
