package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/engine/index"
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
	index      *index.Index
	queues     []*queue
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
	late        int                 // entries with index.FlagLate
	stuck       int                 // entries with index.FlagStuck
	blocked     map[uint32]blockage // by slot: due objects that were reported as blocked
	summary     summaries
	changes     changes
	paused      paused
	ping        pinger
}

type kindState struct {
	opts    *KindOptions // never written to once it is here
	trigger *trigger
	queue   *queue
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
		index:    index.New(),
		payloads: newPayloads(maxPayloads),
		kinds:    []*kindState{nil},
		guard:    guard{skew: o.Skew, maxSkew: o.MaxSkew},
		breakers: &breakers{scopes: map[scopeKey]*scope{}},
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
	if slot, ok := e.lookup(k, uid); ok && e.index.At(slot).Kind == k {
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
	en := e.index.At(slot)
	if en.Kind != k {
		return
	}
	en.Gen = e.kinds[k].gen
	switch en.State {
	case index.Tombstone, index.Terminating:
	default:
		if en.Compare(resourceVersion) != index.Older {
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

// RegisterKind registers a kind for a trigger and returns its handle. Registering the same
// Resource, Trigger and Scope again replaces the options and keeps the handle and its objects.
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
		// Reuse a handle of the same resource and trigger only: jobs of the forgotten scope may
		// still be under way.
		i = Kind(max(0, slices.IndexFunc(e.kinds, func(s *kindState) bool {
			return s != nil && s.forgotten && s.opts.Resource == k.Resource && s.trigger == t
		})))
	}
	if i != 0 {
		if !e.kinds[i].forgotten {
			e.forget(&e.kinds[i].last, e.changes.count.Add(1)) // Its objects were judged by other rules.
		}
		e.kinds[i].opts, e.kinds[i].forgotten = &k, false
		return i, nil
	}
	if len(e.kinds) > 65535 {
		return 0, errors.New("engine: more than 65535 kinds are registered: restart the controller")
	}
	q := e.queueFor(&k, t)
	e.kinds = append(e.kinds, &kindState{opts: &k, trigger: t, queue: q})
	e.index.AddKind(&q.waiting)
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
	return e.index.Find(uid, e.kinds[k].trigger.id)
}

// ForgetKind drops all objects of a kind, for instance when its CRD is gone. Its feed must have
// ended: another scope may get the handle from now on. Handles are reused because thousands of
// namespaces may come and go, each with its own handles for the kinds that are watched by
// namespace.
func (e *Engine) ForgetKind(k Kind) {
	e.sweep(k, func(*index.Entry) bool { return true })
	e.mu.Lock()
	defer e.unlock()
	was := e.kinds[k]
	for _, scope := range e.breakers.forget(k) {
		e.publish(scope.event(false, "", was.opts.Kind, e.opts.Clock.Now()))
	}
	// The options that remain must not hold on to a feed.
	was.opts = &KindOptions{Type: was.opts.Type, Trigger: was.opts.Trigger, Scope: was.opts.Scope,
		Judge: func(context.Context, Object) (Judgement, error) {
			return Judgement{}, errors.New("the kind is not known any more")
		}}
	was.forgotten, was.held = true, false
	e.forget(&was.last, was.last.all)
}

func (e *Engine) triggerNamed(name string) *trigger {
	if i := slices.IndexFunc(e.triggers, func(t *trigger) bool { return t.Name == name }); i >= 0 {
		return e.triggers[i]
	}
	return nil
}

// maxPayloads bounds how many payloads are kept. An object whose payload was dropped is judged
// live before the action.
const maxPayloads = 1 << 16

// payloads keeps the payloads of judged states, for triggers with payloads. Entries of other
// triggers pay nothing for it.
type payloads struct {
	of *lru.Cache // payloadKey → payload
}

type payloadKey struct {
	trigger uint8
	uid     types.UID
}

type payload struct {
	resourceVersion string
	value           any
}

func newPayloads(most int) payloads { return payloads{of: lru.New(most)} }

// keep remembers the payload of a state and replaces an earlier one.
func (p payloads) keep(t *trigger, o *Object) {
	if t.Payload && o.Payload != nil {
		p.of.Add(payloadKey{t.id, types.UID(strings.Clone(string(o.UID)))}, payload{strings.Clone(o.ResourceVersion), o.Payload})
	}
}

// get returns the payload of exactly this state, or nil if it is not known.
func (p payloads) get(t *trigger, o *Object) any {
	found, _ := p.of.Get(payloadKey{t.id, o.UID})
	if known, ok := found.(payload); ok && known.resourceVersion == o.ResourceVersion {
		return known.value
	}
	return nil
}

func (p payloads) drop(t *trigger, uid types.UID) {
	if t.Payload {
		p.of.Remove(payloadKey{t.id, uid})
	}
}
