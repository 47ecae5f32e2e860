package expire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// Engine tracks objects and deletes them when they are due. All methods are safe for concurrent
// use; only Run blocks on the network. Its own methods are the loop. Each other concern is a part
// with its own state. The parts share one lock.
type Engine struct {
	*base
	entries
	changes
	paused
	guard
	slots
	limits
	metrics *metrics
	lines   []*line // of untracked objects, in the order of their turns
	summary summaries
	// othersFirst alternates, so that neither class waits for the end of the other.
	othersFirst bool
}

// New makes an engine that does nothing until Run.
func New(o Options) (*Engine, error) {
	o, err := o.complete()
	triggers, errTriggers := register(o.Triggers)
	if err := errors.Join(errTriggers, err); err != nil {
		return nil, err
	}
	e := &Engine{base: &base{opts: o}, summary: summaries{of: map[summaryKey]*Summary{}, reported: map[summaryKey]bool{}, outcomes: map[Ending]int{}}}
	e.entries = entries{
		base: e.base, triggers: triggers, index: index.New(), payloads: newPayloads(maxPayloads), kinds: []*kindState{nil},
		blocked: map[uint32]blockage{}, kick: make(chan struct{}, 1),
	}
	e.changes.entries, e.paused.entries = &e.entries, &e.entries
	e.guard = guard{entries: &e.entries, skew: o.Skew}
	e.slots = slots{entries: &e.entries, conc: deletion.NewConcurrency(o.MaxConcurrency, o.FavourDrain)}
	e.limits = limits{
		entries: &e.entries, breakers: &breakers{scopes: map[scopeKey]*scope{}},
		all: deletion.Rate{Limit: o.MaxDeletionsPerMinute}, backfill: deletion.Rate{Limit: o.BackfillPerMinute},
	}
	o.Pauses.OnAnswer(e.wakeUp)
	if o.Rules != nil {
		o.Rules.OnAnswer(e.wakeUp)
	}
	m := newMetrics(e)
	e.metrics, e.byOthers = m, m.byOthers
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return e, nil
}

// DryRun reports whether every deletion is a dry run. Feeds of such an engine change nothing
// either.
func (e *Engine) DryRun() bool { return e.opts.DryRun }

// RegisterKind registers a kind for a trigger and returns its handle. Registering the same
// Resource, Trigger and Scope again replaces the options and keeps the handle and its objects.
func (e *Engine) RegisterKind(k KindOptions) (Kind, error) {
	t := e.triggerNamed(k.Trigger)
	switch {
	case k.Resource.Resource == "" || k.Resource.Version == "":
		return 0, fmt.Errorf("engine: KindOptions.Resource is %q: give version and plural resource", k.Resource)
	case k.Kind == "":
		return 0, fmt.Errorf("engine: KindOptions.Kind of %s is empty: give the kind's name", k.Resource)
	case k.Judge == nil:
		return 0, fmt.Errorf("engine: KindOptions.Judge of %s is nil: give a function that reads one object live", k.Resource)
	case t == nil:
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
			e.forget(&e.kinds[i].last, e.count.Add(1)) // Its objects were judged by other rules.
		}
		e.kinds[i].opts, e.kinds[i].forgotten = &k, false
		return i, nil
	}
	if len(e.kinds) > 65535 {
		return 0, errors.New("engine: more than 65535 kinds are registered: restart the controller")
	}
	traffic := e.trafficOf(&k)
	e.kinds = append(e.kinds, &kindState{
		opts: &k, trigger: t, traffic: traffic, enqueued: e.metrics.enqueued.WithLabelValues(t.Name, k.Resource.Group, k.Kind),
	})
	e.index.AddKind(traffic.number, t.Deletes)
	return Kind(len(e.kinds) - 1), nil
}

func (e *Engine) kindOf(o *KindOptions) Kind {
	return Kind(max(0, slices.IndexFunc(e.kinds, func(k *kindState) bool {
		return k != nil && k.opts.Resource == o.Resource && k.opts.Trigger == o.Trigger && k.opts.Scope == o.Scope
	})))
}

func (e *Engine) triggerNamed(name string) *trigger {
	if i := slices.IndexFunc(e.triggers, func(t *trigger) bool { return t.Name == name }); i >= 0 {
		return e.triggers[i]
	}
	return nil
}

// ForgetKind drops all objects of a kind, for instance when its CRD is gone. Its feed must have
// ended: another scope may get the handle from now on. Handles are reused because thousands of
// namespaces may come and go, each with its own handles for the kinds that are watched by
// namespace.
func (e *Engine) ForgetKind(k Kind) {
	e.sweep(k, func(*index.Record) bool { return true })
	e.mu.Lock()
	defer e.unlock()
	was := e.kinds[k]
	for _, scope := range e.breakers.forget(k) {
		e.publish(scope.event(false, "", was.opts.Kind))
	}
	// The options that remain must not hold on to a feed.
	was.opts = &KindOptions{Type: was.opts.Type, Trigger: was.opts.Trigger, Scope: was.opts.Scope,
		Judge: func(context.Context, Entry) (Judgement, error) {
			return Judgement{}, errors.New("the kind is not known any more")
		}}
	was.forgotten, was.held = true, false
	e.forget(&was.last, was.last.all)
}

// Hold stops the deletions of a kind, for its trigger and in its scope, until Hold is called again
// with false: its rules changed, and no Judge with the new rules is registered yet. The engine
// keeps the objects, and afterwards judges each again before it deletes it. Other scopes go on,
// since one namespace may lack a permission for long.
func (e *Engine) Hold(k Kind, on bool) {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	kindState := e.kinds[k]
	e.forget(&kindState.last, e.count.Add(1))
	if kindState.held && !on {
		now, _ := e.guard.now(r)
		e.rewake(now, func(en *index.Record) bool {
			return en.Kind == k && en.State == index.Armed && en.Flags&index.FlagParked != 0
		})
	}
	kindState.held = on
}

// Relist is one full list of a kind, page by page. Objects that it does not show are gone. It needs
// no memory: entries carry the generation in which they were last seen.
//
// A kind with several lists (by phase, by label) passes all of them to one Relist. A Relist without
// End drops nothing, and does not affect the next one. A kind has one Relist at a time.
type Relist struct {
	// Seen counts the objects in the list so far, and Waiting those with an expiry.
	Seen, Waiting int

	engine *Engine
	kind   Kind
	gen    uint8
}

// BeginRelist starts a list of a kind. Watches may go on meanwhile: objects that they show count as
// seen.
func (e *Engine) BeginRelist(k Kind) *Relist {
	e.mu.Lock()
	defer e.unlock()
	e.kinds[k].gen++
	return &Relist{engine: e, kind: k, gen: e.kinds[k].gen}
}

// Upsert is Engine.Upsert for an object in the list.
func (r *Relist) Upsert(o Entry) {
	r.Seen++
	r.Waiting++
	r.engine.upsert(o, fromRelist)
}

// Terminating is Engine.Terminating for an object in the list.
func (r *Relist) Terminating(o Entry, since time.Time) {
	r.Seen++
	r.engine.Terminating(o, since)
}

// Cancel is Engine.Cancel for an object in the list that has no expiry.
func (r *Relist) Cancel(k Kind, uid types.UID, resourceVersion string, epoch uint64) {
	r.Seen++
	r.engine.Cancel(k, uid, resourceVersion, epoch)
}

// End drops the objects that were not seen since BeginRelist and returns their number.
// resourceVersion is the version of the list's first page, or the lowest of several lists: newer
// entries are kept, since a list may come from a cache that lags behind the watch (S3). If it is
// not a number, End drops all unseen objects. Call it only after every page.
func (r *Relist) End(resourceVersion string) (dropped int) {
	limit, numeric := index.PackVersion(resourceVersion)
	return r.engine.sweep(r.kind, func(en *index.Record) bool {
		return en.Gen != r.gen && (!numeric || !en.NewerThan(limit))
	})
}

// sweep drops entries of a kind, chunk by chunk, so that deletions go on in between.
func (e *Engine) sweep(k Kind, which func(en *index.Record) bool) (dropped int) {
	for c, more := 0, true; more; c++ {
		e.mu.Lock()
		more = e.index.Each(c, func(slot uint32, en *index.Record) {
			if en.Kind == k && which(en) {
				if tracked(en.State) {
					dropped++
				}
				e.release(slot)
			}
		})
		e.unlock()
	}
	return dropped
}

// lookup finds the entry of a UID for the trigger of a kind.
func (e *entries) lookup(k Kind, uid types.UID) (uint32, bool) {
	if k == 0 || int(k) >= len(e.kinds) {
		return 0, false
	}
	return e.index.Find(uid, e.kinds[k].trigger.id)
}
