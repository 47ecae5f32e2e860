package coverage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options of a [Keeper].
type Options struct {
	// Kinds are those with a profile that are served. An error means that they are not known yet.
	Kinds func() ([]registry.Served, error)
	// RuntimesKnown reports whether it is known which runtimes have a deadline; nil where nobody knows. Kinds of which it is not known have every
	// object sent that uses a runtime.
	RuntimesKnown func() bool
	// Policies of the cluster, likewise.
	Policies func() ([]*v1alpha1.LifecyclePolicy, error)
	// Mutating and Validating are the webhook configurations of the API server.
	Mutating, Validating Client
	// Namespace of Curfew itself.
	Namespace string
	// Static names the configurations of manifests/webhook.
	Static string
	// FailClosed has requests refused that Curfew could not validate. What only fills in defaults never fails a request.
	FailClosed bool
	// Controller is the controller's ServiceAccount in it.
	Controller string
	// Deletable are resources of which that may delete objects in all namespaces; false means that they are not known yet. Nil where
	// nobody knows.
	Deletable func() ([]schema.GroupResource, bool)
	// Alias has objects sent for label cleanup.kyverno.io/ttl as well.
	Alias bool
	// Protect and DryRun are those of the controller: labels have no effect there.
	Protect []string
	DryRun  bool

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

const (
	// settle is how long changes are gathered before they are acted on.
	settle = 500 * time.Millisecond
	// calm is the least time between two writes, so that a fight over a field with somebody else stays cheap.
	calm = time.Second
	// patience is how long is waited for [Options.Deletable]. Nothing else hangs on it: what is not known is asked of the API server.
	patience = 10 * time.Second
)

// Keeper keeps the two configurations in step with profiles, policies, and what is served.
type Keeper struct {
	options Options
	log     logr.Logger
	sides   []side
	dirty   chan struct{}
	failed  prometheus.Counter
	// impatient is that patience is over, and coarse that the API server refused a plan. They are the run loop's alone.
	impatient, coarse bool
}

// New makes a keeper. The error is that of registering its metric.
func New(options Options) (*Keeper, error) {
	k := &Keeper{options: options, log: options.Log.WithName("coverage"), dirty: make(chan struct{}, 1), failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "curfew_coverage_errors_total",
		Help: "Attempts to bring the webhook configurations curfew-kinds in step with profiles and policies that failed.",
	})}
	if options.Registerer != nil {
		if err := options.Registerer.Register(k.failed); err != nil {
			return nil, fmt.Errorf("registering the metric of coverage: %w", err)
		}
	}
	failure := admissionv1.Ignore
	if options.FailClosed {
		failure = admissionv1.Fail
	}
	k.sides = []side{
		newSide(k, kindMutating, options.Mutating, mutating{}),
		newSide(k, kindValidating, options.Validating, validating{failure}),
	}
	return k, nil
}

// Again has the plan made anew: what it depends on has changed.
func (k *Keeper) Again() {
	select {
	case k.dirty <- struct{}{}:
	default:
	}
}

// Run keeps the configurations until ctx is done. It leaves them as they are: another leader, or the next start, takes over.
func (k *Keeper) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, side := range k.sides {
		group.Go(func() { side.static.Run(ctx) })
		group.Go(func() { side.own.Run(ctx) })
	}
	delay := newDelay()
	over := k.options.Clock.NewTimer(patience)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.dirty:
		case <-over.C():
			k.impatient = true
		}
		if !k.pause(ctx, settle) {
			return nil
		}
		select {
		case <-k.dirty:
		default:
		}
		wrote, err := k.reconcile(ctx)
		switch {
		case err == nil:
			delay = newDelay()
		case ctx.Err() != nil:
			return nil
		default:
			k.failed.Inc()
			again := delay.Step()
			k.log.Error(err, "webhook configurations are not in step with profiles and policies, trying again", "name", Name, "after", again)
			if !k.pause(ctx, again) {
				return nil
			}
			k.Again()
		}
		if wrote && !k.pause(ctx, calm) {
			return nil
		}
	}
}

// reconcile makes the plan and writes what differs from it.
func (k *Keeper) reconcile(ctx context.Context) (wrote bool, err error) {
	kinds, err := k.options.Kinds()
	if err != nil {
		return false, k.unknown(err)
	}
	policies, err := k.options.Policies()
	if err != nil {
		return false, k.unknown(err)
	}
	var deletable []schema.GroupResource
	if k.options.Deletable != nil {
		var known bool
		// What an earlier leader wrote is not to be written twice.
		if deletable, known = k.options.Deletable(); !known && !k.impatient {
			return false, k.unknown(errors.New("what the controller may delete"))
		}
	}
	if k.options.RuntimesKnown != nil && !k.options.RuntimesKnown() && !k.impatient {
		return false, k.unknown(errors.New("the runtimes"))
	}
	plan := newPlan(&Input{Kinds: kinds, Policies: policies, Namespace: k.options.Namespace, Controller: k.options.Controller, Deletable: deletable,
		Alias: k.options.Alias, Protect: k.options.Protect, DryRun: k.options.DryRun, coarse: k.coarse})
	var errs []error
	for i := range k.sides {
		did, err := k.sides[i].reconcile(ctx, plan)
		wrote = wrote || did
		if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
			k.coarse = true // The next attempt has more sent, by shorter conditions.
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err) // The others mean that a newer state is on its way through the watch.
		}
	}
	return wrote, errors.Join(errs...)
}

// unknown is no error: what is not known yet says so itself, and is told of once it is.
func (k *Keeper) unknown(err error) error {
	k.log.V(1).Info("not all is known yet", "reason", err.Error())
	return nil
}

func (k *Keeper) pause(ctx context.Context, d time.Duration) bool {
	timer := k.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// newDelay grows to thirty seconds and stays there.
func newDelay() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: 30 * time.Second}
}
