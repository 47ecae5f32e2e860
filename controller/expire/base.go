package expire

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// base is shared by all parts of an engine.
type base struct {
	opts    Options
	workers sync.WaitGroup

	mu         sync.Mutex     // guards all parts
	notes      []func()       // logs and hooks, run after mu is released
	events     []BreakerEvent // to be published
	publishing bool           // a goroutine publishes them
	running    bool
	stopped    bool
}

// note calls f once the lock is released.
func (e *base) note(f func()) { e.notes = append(e.notes, f) }

func (e *base) unlock() {
	notes := e.notes
	e.notes = nil
	e.mu.Unlock()
	for _, f := range notes {
		f()
	}
}

// reading is one reading of the clock. A decision takes one and passes it on; two readings in one
// decision are how waits become negative.
type reading struct {
	at   time.Time     // as the clock gave it
	wall int64         // unix nanoseconds
	mono time.Duration // does not jump
}

func (e *base) read() reading {
	t := e.opts.Clock.Now()
	return reading{at: t, wall: t.UnixNano(), mono: e.opts.monotonic(t)}
}

// publish queues an event. The lock is held.
func (e *base) publish(ev BreakerEvent) {
	e.events = append(e.events, ev)
	e.note(e.publishAll)
}

// publishAll publishes the events one by one, in order: if the end of a pause overtook its
// beginning, a listener would believe that the pause never ends. If another goroutine is publishing
// already, that goroutine publishes the new events.
func (e *base) publishAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.publishing {
		return
	}
	e.publishing = true
	for len(e.events) > 0 {
		events := e.events
		e.events = nil
		e.mu.Unlock()
		for _, ev := range events {
			e.opts.Log.Info(ev.Message, "class", ev.Class, "kind", ev.Kind, "namespace", ev.Namespace, "source", ev.Source,
				"open", ev.Open, "reason", ev.Reason)
			if e.opts.OnBreaker != nil {
				e.opts.OnBreaker(ev)
			}
		}
		e.mu.Lock()
	}
	e.publishing = false
}

// nameOf is the object's name in logs.
func nameOf(o *Entry) string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
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
func (p payloads) keep(t *trigger, o *Entry) {
	if t.Payload && o.Payload != nil {
		p.of.Add(payloadKey{t.id, types.UID(strings.Clone(string(o.UID)))}, payload{strings.Clone(o.ResourceVersion), o.Payload})
	}
}

// get returns the payload of exactly this state, or nil if it is not known.
func (p payloads) get(t *trigger, o *Entry) any {
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
