package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/pace"
)

// Engine tracks objects and deletes them when they are due. All methods are safe for concurrent
// use; only Run blocks on the network.
type Engine struct {
	opts    Options
	metrics *metrics
	kick    chan struct{}
	workers sync.WaitGroup

	mu         sync.Mutex
	notes      []func()       // logs and hooks, run after mu is released
	events     []BreakerEvent // to be published
	publishing bool           // a goroutine publishes them
	triggers   []*trigger
	index      *index
	payloads   payloads
	kinds      []*kindState // by Kind; 0 is none
	guard      guard
	breakers   *breakers
	conc       *pace.Concurrency
	all        pace.Rate
	backfill   pace.Rate
	submitted  []*batch
	running    bool
	stopped    bool
	requests   room    // DELETEs and other actions under way,
	judgements room    // and live judgements
	underway   []*stay // stays that take a slot, in both rooms, in the order of their start; some have ended
	waiting    []*waiter
	turns      uint64 // requests and live judgements so far
	// stuckShares counts shares with flag stuck.
	stuckShares int
	pausedTo    time.Duration       // monotonic: Retry-After
	sleeping    int64               // the dispatcher sleeps until then; an earlier instant must wake it
	late        int                 // entries with flagLate
	stuck       int                 // entries with flagStuck
	blocked     map[uint32]blockage // by slot: due objects that were reported as blocked
	summary     summaries
	changes     changes
	paused      paused
	ping        pinger
}

type kindState struct {
	opts    *KindOptions // never written to once it is here
	trigger *trigger
	gen     uint8
	tracked int
	last    lastChanges
	held    bool // see Engine.Hold
	// forgotten: no feed uses the handle, so another scope of the kind may get it.
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
		conc:     pace.NewConcurrency(o.MaxConcurrency, o.FavourDrain),
		all:      pace.Rate{Limit: o.MaxDeletionsPerMinute},
		backfill: pace.Rate{Limit: o.BackfillPerMinute},
		blocked:  map[uint32]blockage{},
		summary:  summaries{of: map[summaryKey]*Summary{}},
	}
	o.Pauses.OnAnswer(e.wakeUp)
	e.metrics = newMetrics(e)
	if o.Registerer != nil {
		if err := o.Registerer.Register(e.metrics); err != nil {
			return nil, fmt.Errorf("engine: registering metrics: %w", err)
		}
	}
	return e, nil
}

// DryRun reports whether every deletion is a dry run. Feeds of such an engine change nothing
// either.
func (e *Engine) DryRun() bool { return e.opts.DryRun }

// Upsert tracks an object, or postpones or advances the entry of its UID for the kind's trigger. A
// state that is older than the tracked one changes nothing. An object that was just deleted stays
// out for Options.KeepOut, unless its resourceVersion is newer. For objects that carry a
// deletionTimestamp call Terminating instead.
func (e *Engine) Upsert(o Object) { e.upsert(o, fromWatch) }

func (e *Engine) upsert(o Object, from origin) {
	if o.Expiry.IsZero() {
		// An object without an expiry is kept (S6).
		e.Cancel(o.Kind, o.UID, o.ResourceVersion)
		return
	}
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	if e.valid(&o) {
		e.apply(&o, r.wall, from)
	}
}

// Remove drops the entry of the UID: the watch reported that the object is gone.
func (e *Engine) Remove(k Kind, uid types.UID) {
	e.mu.Lock()
	defer e.unlock()
	if slot, ok := e.lookup(k, uid); ok && e.index.at(slot).kind == k {
		e.release(slot)
	}
}

// Cancel drops the entry of the UID, because in the state of the given resourceVersion the object
// exists and has no expiry. It changes nothing if a newer state is tracked, or if the object is
// being deleted.
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

// Terminating notes that an object carries a deletionTimestamp (since), from Curfew or from another
// client. The engine does not delete it again. It reports the object as stuck after
// Options.StuckAfter, until Remove. Object.Expiry may be zero.
func (e *Engine) Terminating(o Object, since time.Time) {
	e.mu.Lock()
	defer e.unlock()
	if e.valid(&o) {
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

// note calls f once the lock is released.
func (e *Engine) note(f func()) { e.notes = append(e.notes, f) }

func (e *Engine) unlock() {
	notes := e.notes
	e.notes = nil
	e.mu.Unlock()
	for _, f := range notes {
		f()
	}
}

// nameOf is the object's name in logs.
func nameOf(o *Object) string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}
