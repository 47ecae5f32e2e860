package webhookconfig

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options of a [Keeper]. All are required, except for Places.
type Options struct {
	// Input has what flags decide. The keeper fills in the rest.
	Input Input
	// Kinds returns the served kinds with a profile, or an error until they are known.
	Kinds func() ([]platform.Served, error)
	// RuntimesKnown reports whether Kinds knows which runtimes have a deadline.
	RuntimesKnown func() bool
	// Places returns [Input.Places], and false until they are known. Nil where TTL labels are switched
	// off.
	Places func() ([]discovery.Place, bool)
	// Policies returns the policies of the cluster, or an error until they are known.
	Policies func() ([]*v1alpha1.LifecyclePolicy, error)
	// Mutating and Validating read and write the webhook configurations of the API server.
	Mutating, Validating Client
	// Static names the configurations of manifests/webhook.
	Static string
	// Changed is called when [Keeper.State] has another fingerprint.
	Changed func()

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

const (
	// gather is how long a change waits for others.
	gather = 500 * time.Millisecond
	// writeEvery is the least time between two writes, in case another writer keeps undoing them.
	writeEvery = time.Second
	// patience bounds the wait for [Options.Places] and [Options.RuntimesKnown].
	patience = 10 * time.Second
)

// Keeper keeps the two configurations in step with profiles, policies and the served kinds.
type Keeper struct {
	options        Options
	log            logr.Logger
	configurations []*configuration
	changed        loop.Signal
	failed         prometheus.Counter

	// Only the loop uses these.
	began  time.Time
	coarse bool // the API server refused a plan

	mu  sync.Mutex
	err error // of the last attempt
}

// State returns the fingerprint of each configuration as it should be, by its kind, the
// requirements that others added to namespaceSelectors, and why the last attempt to write failed.
func (k *Keeper) State() (wanted map[string]string, foreign []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted = map[string]string{}
	for _, c := range k.configurations {
		if c.fingerprint != "" {
			wanted[c.kind] = c.fingerprint
		}
		foreign = append(foreign, c.foreign...)
	}
	return wanted, foreign, k.err
}

// New makes a keeper.
func New(options Options) *Keeper {
	k := &Keeper{options: options, log: options.Log.WithName("coverage"), changed: loop.NewSignal()}
	k.failed = promauto.With(options.Registerer).NewCounter(prometheus.CounterOpts{Name: "curfew_coverage_errors_total",
		Help: "Attempts to bring the webhook configurations curfew-kinds in step with profiles and policies that failed."})
	k.configurations = []*configuration{k.configuration(mutatingKind, options.Mutating), k.configuration(validatingKind, options.Validating)}
	return k
}

// Again makes the plan again, because its input has changed.
func (k *Keeper) Again() { k.changed.Set() }

// Run keeps the configurations until ctx is done. It leaves them in place for the next leader.
func (k *Keeper) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range k.configurations {
		group.Go(func() { c.static.Run(ctx) })
		group.Go(func() { c.own.Run(ctx) })
	}
	k.began = k.options.Clock.Now()
	loop.Worker{
		Clock: k.options.Clock, Signal: k.changed, Gather: gather, Backoff: loop.NewBackoffOf(500*time.Millisecond, 30*time.Second),
		Do: k.reconcile,
		Failed: func(err error, again time.Duration) {
			k.failed.Inc()
			k.log.Error(err, "webhook configurations are not in step with profiles and policies, trying again", "name", Name, "after", again)
		},
	}.Run(ctx)
	return nil
}

// reconcile makes the plan and writes each configuration that differs from it.
func (k *Keeper) reconcile(ctx context.Context) (again time.Duration, err error) {
	input, again, err := k.input()
	if err != nil {
		k.log.V(1).Info("not all is known yet", "reason", err.Error())
		return again, nil // Whatever becomes known sets the signal.
	}
	plan := newPlan(input)
	var errs []error
	wrote := false
	for _, c := range k.configurations {
		did, err := c.reconcile(ctx, input, plan)
		wrote = wrote || did
		if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
			k.coarse = true // The next attempt has shorter conditions.
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err) // The others mean that the watch will bring a newer state.
		}
	}
	err = errors.Join(errs...)
	k.mu.Lock()
	k.err = err
	k.mu.Unlock()
	if wrote {
		loop.Pause(ctx, k.options.Clock, writeEvery)
	}
	return 0, err
}

// input returns what a plan is made of, or an error while something is unknown; then it also
// returns when to try again.
func (k *Keeper) input() (input *Input, again time.Duration, err error) {
	o, copied := &k.options, k.options.Input
	input = &copied
	input.coarse = k.coarse
	if input.Kinds, err = o.Kinds(); err == nil {
		input.Policies, err = o.Policies()
	}
	if err != nil {
		return nil, 0, err
	}
	known := true
	if o.Places != nil {
		input.Places, known = o.Places()
	}
	if left := patience - o.Clock.Since(k.began); left > 0 && !(known && o.RuntimesKnown()) {
		// Waiting keeps the first plan of a leader from replacing the last leader's for a moment.
		return nil, left, errors.New("the served kinds, what may be deleted, or the runtimes")
	}
	return input, 0, nil
}
