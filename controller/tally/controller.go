package tally

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options are what a Controller works with. All fields are required unless they say otherwise.
type Options struct {
	// Tallies says which namespaces have PodTallies.
	Tallies Tallies
	Cluster Cluster
	// ServerTime is the API server's time, or an error while that is not known.
	ServerTime func(context.Context) (time.Time, error)
	// Event records an Event on a PodTally. It may be nil.
	Event func(object *v1alpha1.PodTally, eventType, reason, message string)

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

// Tallies follows PodTallies; follow.Tallies does.
type Tallies interface {
	// OnChange registers a function that is called with the namespace of one that has changed.
	OnChange(f func(namespace string))
	// Namespaces returns the namespaces with PodTallies. In fails for them until all are known.
	Namespaces() []string
	In(namespace string) ([]*match.Tally, error)
}

// Controller counts the Pods of PodTallies.
type Controller struct {
	options Options
	log     logr.Logger
	metrics *metrics
	queue   *loop.RetryQueue
	send    func(context.Context, []request) error

	mu      sync.Mutex
	running context.Context     // nil before Run
	spaces  map[string]*watched // by namespace
	all     sync.WaitGroup
}

// watched is a namespace whose Pods are watched.
type watched struct {
	*space
	*watch.Follower
	cancel context.CancelFunc
	// pace and gathered are how long changes of PodTallies wait for more, and when they did last.
	pace     *loop.Backoff
	gathered time.Time
	empty    time.Time // since when there is nothing to do
}

// New makes a controller that does nothing until Run.
func New(options Options) *Controller {
	c := &Controller{
		options: options, log: options.Log.WithName("tally"), send: sender(),
		queue: loop.NewFairQueue(options.Clock, recheck, namespaceOf), spaces: map[string]*watched{}, metrics: newMetrics(options.Registerer),
	}
	options.Tallies.OnChange(c.watch)
	return c
}

// Run counts until ctx is done. It may run once in a cluster.
func (c *Controller) Run(ctx context.Context) error {
	c.mu.Lock()
	c.running = ctx
	c.mu.Unlock()
	for _, namespace := range c.options.Tallies.Namespaces() {
		c.watch(namespace)
	}
	c.all.Go(func() { c.sweeps(ctx) })
	c.rounds(ctx)
	<-ctx.Done()
	c.all.Wait()
	return nil
}

// rounds has rounds of tallies until ctx is done. Namespaces take turns.
func (c *Controller) rounds(ctx context.Context) {
	for range workers {
		c.all.Go(func() {
			for {
				key, ok := c.queue.Next(ctx)
				if !ok {
					return
				}
				c.do(ctx, key)
			}
		})
	}
}

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// watch has the tallies and Pods of a namespace listed again, and watched if they are not yet.
func (c *Controller) watch(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil || c.running.Err() != nil {
		return
	}
	w := c.spaces[namespace]
	if w == nil {
		w = c.newSpace(namespace)
		ctx, cancel := context.WithCancel(c.running)
		w.cancel = cancel
		c.all.Go(func() { c.follow(ctx, w) })
	}
	w.Again()
}

// newSpace adds a namespace. The lock is held.
func (c *Controller) newSpace(namespace string) *watched {
	w := &watched{space: &space{
		namespace: namespace, orphans: &tally{}, pods: map[types.UID]*pod{}, listed: map[types.UID]*tally{}, deletions: map[types.UID]bool{},
	}}
	w.wake = func(t *tally) { c.wake(w.space, t) }
	w.Follower = c.follower(w)
	c.spaces[namespace] = w
	return w
}

// space is a namespace that is watched, or nil.
func (c *Controller) space(namespace string) *watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spaces[namespace]
}

// wake has a tally worked on when that is worth while. The lock of its namespace is held.
func (c *Controller) wake(s *space, t *tally) {
	now := c.options.Clock.Now()
	instant, ok := s.when(t, now)
	if !ok || t.due.After(now) && !instant.Before(t.due) {
		return
	}
	key := s.namespace + "/" + t.name
	if t.due = instant; instant.After(now) {
		c.queue.AddAfter(key, instant.Sub(now))
		return
	}
	c.queue.Add(key)
}

// tallies lists the PodTallies of a namespace. A missing CRD is not an error: their Pods have to be
// released. A 404 alone does not say that it is missing: a proxy, or an API server that does not
// know the CRD yet, answers the same.
func (c *Controller) tallies(ctx context.Context, namespace string) ([]*StoredTally, error) {
	out, err := c.options.Cluster.Tallies(ctx, namespace)
	if apierrors.IsNotFound(err) {
		defined, unsure := c.options.Cluster.Defined(ctx)
		switch {
		case unsure != nil:
			return nil, fmt.Errorf("listing PodTallies: %w, and whether they are installed is not known: %w", err, unsure)
		case !defined:
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing PodTallies: %w", err)
	}
	return out, nil
}

// split compiles the PodTallies of a namespace, and returns the ones that count, the oldest first,
// and the ones beyond the limit. Admission denies the latter, but they may be older than that, or
// have been created at once.
func split(objects []*StoredTally) (counting, excess []*tally) {
	tallies, all := map[*match.Tally]*tally{}, make([]*match.Tally, 0, len(objects))
	for _, object := range objects {
		compiled, errs := match.Compile(&object.PodTally)
		compiled.Requires = object.Requires
		tallies[compiled] = &tally{
			name: object.Name, uid: object.UID, match: compiled, invalid: append(errs, object.Unmet...),
			version: object.ResourceVersion, status: object.Status, ledger: readLedger(&object.Status), edited: object.Editor,
		}
		all = append(all, compiled)
	}
	within, beyond := match.Within(all)
	for _, compiled := range within {
		counting = append(counting, tallies[compiled])
	}
	for _, compiled := range beyond {
		excess = append(excess, tallies[compiled])
	}
	return counting, excess
}

type metrics struct {
	counted  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	failures *prometheus.CounterVec
	edited   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		counted: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_tally_pods_total", Help: "Pods that were counted by a PodTally, by how they finished."}, []string{"result"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{Name: "curfew_tally_request_duration_seconds",
			Help: "Duration of the requests of PodTallies, by step: status, count, adopt or release.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 12)}, []string{"step"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_tally_request_failures_total", Help: "Requests of PodTallies that failed, and are sent again, by step."}, []string{"step"}),
		edited:   factory.NewCounter(prometheus.CounterOpts{Name: "curfew_tally_status_edits_total", Help: "Statuses of PodTallies that someone else than Curfew had changed."}),
	}
}

// step counts one request.
func (m *metrics) step(step string, began time.Time, clock clock.PassiveClock, err error) {
	m.duration.WithLabelValues(step).Observe(clock.Since(began).Seconds())
	if err != nil {
		m.failures.WithLabelValues(step).Inc()
	}
}
