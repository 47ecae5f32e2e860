package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Engine tracks objects and deletes them when they are due. All methods are safe for concurrent use; none blocks on the
// network but Run and DeleteNow.
type Engine struct {
	opts    Options
	metrics *metrics
	kick    chan struct{}
	workers sync.WaitGroup

	mu         sync.Mutex
	notes      []func()       // logs and hooks, run after mu is let go
	events     []BreakerEvent // to be published
	publishing bool           // somebody publishes them
	triggers   []*trigger
	index      *index
	payloads   payloads
	kinds      []*kindState // by Kind; 0 is none
	guard      guard
	breakers   *breakers
	conc       *concurrency
	all        rate
	backfill   rate
	submitted  []submission
	running    bool
	stopped    bool
	inFlight   int                 // requests under way that take up room,
	apart      int                 // and those that do not: see queue
	underway   []*job              // the former in the order in which they were sent, with some that have come to their end
	turns      uint64              // requests so far
	pausedTo   time.Duration       // monotonic: Retry-After
	sleeping   int64               // until which instant the dispatcher sleeps, to know whether an earlier one must wake it
	late       int                 // entries with flagLate
	stuck      int                 // entries with flagStuck
	blocked    map[uint32]blockage // by slot: what was reported as blocked and is still due
	summary    summaries
	changes    changes
	ping       pinger
}

type kindState struct {
	opts    *KindOptions // never written to once it is here
	trigger *trigger
	gen     uint8
	tracked int
	changed uint64 // see changes
	// forgotten: nobody uses the handle, so that another scope of the kind may have it.
	forgotten bool
}

// New makes an engine that does nothing until Run.
func New(o Options) (*Engine, error) {
	o, err := o.complete()
	triggers, errTriggers := register(o.Triggers)
	if err := errors.Join(errTriggers, err); err != nil {
		return nil, err
	}
	e := &Engine{
		opts:     o,
		kick:     make(chan struct{}, 1),
		triggers: triggers,
		index:    newIndex(),
		payloads: newPayloads(payloadsMost),
		kinds:    []*kindState{nil},
		guard:    guard{skew: o.Skew, maxSkew: o.MaxSkew},
		breakers: newBreakers(),
		conc:     newConcurrency(o.MaxConcurrency, o.FavourDrain),
		all:      rate{limit: o.MaxDeletionsPerMinute},
		backfill: rate{limit: o.BackfillPerMinute},
		blocked:  map[uint32]blockage{},
		summary:  summaries{of: map[summaryKey]*Summary{}},
	}
	e.metrics = newMetrics(e)
	if o.Registerer != nil {
		if err := o.Registerer.Register(e.metrics); err != nil {
			return nil, fmt.Errorf("engine: registering metrics: %w", err)
		}
	}
	return e, nil
}

// DryRun reports whether every deletion is a dry run. Who feeds such an engine changes nothing either.
func (e *Engine) DryRun() bool { return e.opts.DryRun }

// RegisterKind makes a kind known for a trigger and returns its handle. The same Resource, Trigger
// and Scope again replace the options and keep the handle and what is tracked.
func (e *Engine) RegisterKind(k KindOptions) (Kind, error) {
	if k.Resource.Resource == "" || k.Resource.Version == "" {
		return 0, fmt.Errorf("engine: KindOptions.Resource is %q: give version and plural resource", k.Resource)
	}
	if k.Kind == "" {
		return 0, fmt.Errorf("engine: KindOptions.Kind of %s is empty: give the kind's name", k.Resource)
	}
	if k.Judge == nil {
		return 0, fmt.Errorf("engine: KindOptions.Judge of %s is nil: give a function that reads one object live", k.Resource)
	}
	t := e.triggerNamed(k.Trigger)
	if t == nil {
		return 0, fmt.Errorf("engine: KindOptions.Trigger of %s is %q: give one of Options.Triggers", k.Resource, k.Trigger)
	}
	e.mu.Lock()
	defer e.unlock()
	i := e.kindOf(&k)
	if i == 0 {
		// Of the same resource and trigger, so that what is still under way for the one that is gone
		// cannot be mistaken for anything else.
		i = Kind(max(0, slices.IndexFunc(e.kinds, func(s *kindState) bool {
			return s != nil && s.forgotten && s.opts.Resource == k.Resource && s.trigger == t
		})))
	}
	if i != 0 {
		if !e.kinds[i].forgotten {
			e.kinds[i].changed = e.changes.count.Add(1) // What is tracked was judged by other rules.
		}
		e.kinds[i].opts, e.kinds[i].forgotten = &k, false
		return i, nil
	}
	if len(e.kinds) > 65535 {
		return 0, errors.New("engine: more than 65535 kinds are registered: restart the controller")
	}
	e.kinds = append(e.kinds, &kindState{opts: &k, trigger: t})
	e.index.of = append(e.index.of, e.queueFor(&k, t))
	return Kind(len(e.kinds) - 1), nil
}

func (e *Engine) kindOf(o *KindOptions) Kind {
	return Kind(max(0, slices.IndexFunc(e.kinds, func(k *kindState) bool {
		return k != nil && k.opts.Resource == o.Resource && k.opts.Trigger == o.Trigger && k.opts.Scope == o.Scope
	})))
}

// lookup finds the entry of a UID for the trigger of a kind.
func (e *Engine) lookup(k Kind, uid types.UID) (uint32, bool) {
	if k == 0 || int(k) >= len(e.kinds) {
		return 0, false
	}
	return e.index.lookup(uid, e.kinds[k].trigger.id)
}

// ForgetKind drops all that is tracked of a kind, as when its CRD is gone. Its feed must have ended:
// the handle may be another scope's from now on. Namespaces come and go by the thousand, each with
// handles of its own for every kind that is watched in it alone.
func (e *Engine) ForgetKind(k Kind) {
	e.sweep(k, func(*entry) bool { return true })
	e.mu.Lock()
	defer e.unlock()
	was := e.kinds[k]
	for _, scope := range e.breakers.forget(k) {
		e.publish(scope.event(false, "", was.opts.Kind, e.opts.Clock.Now()))
	}
	// What is kept of it holds on to no feed.
	was.opts = &KindOptions{Type: was.opts.Type, Trigger: was.opts.Trigger, Scope: was.opts.Scope,
		Judge: func(context.Context, Object) (Judgement, error) {
			return Judgement{}, errors.New("the kind is not known any more")
		}}
	was.forgotten = true
	q := e.index.queueOf(k)
	q.held = slices.DeleteFunc(q.held, func(held Kind) bool { return held == k })
}

// Upsert tracks an object, or postpones or advances what is tracked under its UID for the kind's
// trigger. A state that is older than the tracked one changes nothing. An object that was just
// deleted stays out for Options.KeepOut, unless its resourceVersion is newer. Do not call it for
// objects that carry a deletionTimestamp: that is Terminating.
func (e *Engine) Upsert(o Object) { e.upsert(o, fromWatch) }

func (e *Engine) upsert(o Object, from origin) {
	if o.Expiry.IsZero() {
		// What has no expiry is kept (S6).
		e.Cancel(o.Kind, o.UID, o.ResourceVersion)
		return
	}
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	if e.valid(&o) && !e.kinds[o.Kind].trigger.Off {
		e.apply(&o, r.wall, from)
	}
}

// Remove drops what is tracked under the UID: the watch says that the object is gone.
func (e *Engine) Remove(k Kind, uid types.UID) {
	e.mu.Lock()
	defer e.unlock()
	if slot, ok := e.lookup(k, uid); ok && e.index.at(slot).kind == k {
		e.release(slot)
	}
}

// Cancel drops what is tracked under the UID, because in the state of the given resourceVersion the object exists and has
// no expiry. It changes nothing if a newer state is tracked, or if the object is being deleted.
func (e *Engine) Cancel(k Kind, uid types.UID, resourceVersion string) {
	e.mu.Lock()
	defer e.unlock()
	slot, ok := e.lookup(k, uid)
	if !ok {
		return
	}
	en := e.index.at(slot)
	if en.kind != k {
		return
	}
	en.gen = e.kinds[k].gen
	switch en.state {
	case stateTombstone, stateTerminating:
	default:
		if compareVersion(en, resourceVersion) != older {
			e.release(slot)
		}
	}
}

// Terminating says that an object carries a deletionTimestamp (since), whoever deleted it. It is not deleted again, and
// it is reported once it has been there for Options.StuckAfter, until Remove. Object.Expiry may be zero.
func (e *Engine) Terminating(o Object, since time.Time) {
	e.mu.Lock()
	defer e.unlock()
	if e.valid(&o) && !e.kinds[o.Kind].trigger.Off {
		e.terminating(&o, since)
	}
}

func (e *Engine) valid(o *Object) bool {
	if int(o.Kind) < len(e.kinds) && o.Kind != 0 && o.UID != "" && o.Name != "" {
		return true
	}
	e.note(func() {
		e.opts.Log.Error(errors.New("kind, UID or name is missing"), "not tracked: this is a bug", "object", nameOf(o), "uid", o.UID, "kind", o.Kind)
	})
	return false
}

// note leaves something to be done once the lock is let go.
func (e *Engine) note(f func()) { e.notes = append(e.notes, f) }

func (e *Engine) unlock() {
	notes := e.notes
	e.notes = nil
	e.mu.Unlock()
	for _, f := range notes {
		f()
	}
}

// nameOf is the object's name as it stands in logs.
func nameOf(o *Object) string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}
