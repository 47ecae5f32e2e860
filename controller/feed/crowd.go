package feed

import (
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// sayAgain is after how long the same may be said of an object again. The API server forgets Events after an hour.
	sayAgain = 25 * time.Minute
	// rememberMost bounds how much of what was said is remembered, twice.
	rememberMost = 10_000
	// burst and perSecond bound the Events on single objects, and aloneMost those on objects of one namespace between two flushes: one
	// tenant must not use up what the others are told by.
	burst, perSecond = 100, 5
	aloneMost        = 20
	// shareEvery is how often what objects share is written, shareMost how many Events that are at a time, and groupsMost how many may
	// wait for it.
	shareEvery = time.Minute
	shareMost  = 60
	groupsMost = 1000
	// namesMost is how many names a shared Event gives.
	namesMost = 3
)

// report is what there is to say of one object.
type report struct {
	on             *corev1.ObjectReference
	reason, action string
	// what is the same for all objects that may share an Event.
	what, text string
}

// said is how it was said.
type said uint8

const (
	// saidBefore: it was said of this object a while ago.
	saidBefore said = iota
	// saidAlone: the object has an Event of its own.
	saidAlone
	// saidTogether: it is counted in an Event that objects share.
	saidTogether
)

// crowd decides which reports become Events of their own. Its memory is bounded, whatever there is to say.
type crowd struct {
	seed maphash.Seed

	mu sync.Mutex
	// recent and earlier are when something was last said. Where recent is full it becomes earlier.
	recent, earlier map[uint64]time.Time
	tokens          float64
	filled          time.Time
	alone           map[string]int // by namespace, since the last flush
	groups          map[group]*crowded
	order           []group
	unnamed         int // counted in no group
}

// group is what objects of one Event have in common.
type group struct{ namespace, apiVersion, kind, reason, what string }

// crowded is an Event that objects share.
type crowded struct {
	group
	action, text string
	example      corev1.ObjectReference
	names        []string
	count        int
}

func newCrowd() *crowd {
	return &crowd{
		seed: maphash.MakeSeed(), recent: map[uint64]time.Time{}, earlier: map[uint64]time.Time{}, tokens: burst,
		alone: map[string]int{}, groups: map[group]*crowded{},
	}
}

// admit decides how a report is made.
func (c *crowd) admit(of *report, now time.Time) said {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before(of, now) {
		return saidBefore
	}
	c.tokens = min(burst, c.tokens+perSecond*max(0, now.Sub(c.filled).Seconds()))
	c.filled = now
	if namespace := of.on.Namespace; c.tokens >= 1 && c.alone[namespace] < aloneMost {
		c.tokens--
		c.alone[namespace]++
		return saidAlone
	}
	key := group{of.on.Namespace, of.on.APIVersion, of.on.Kind, of.reason, of.what}
	one := c.groups[key]
	switch {
	case one != nil:
	case len(c.groups) < groupsMost:
		one = &crowded{group: key, action: of.action, text: cut(of.text), example: *of.on}
		c.groups[key] = one
		c.order = append(c.order, key)
	default:
		c.unnamed++
		return saidTogether
	}
	one.count++
	if len(one.names) < namesMost {
		one.names = append(one.names, of.on.Name)
	}
	return saidTogether
}

// before reports whether the same was said of the object lately, and remembers that it is said now.
func (c *crowd) before(of *report, now time.Time) bool {
	var h maphash.Hash
	h.SetSeed(c.seed)
	for _, part := range []string{string(of.on.UID), of.reason, of.text} {
		_, _ = h.WriteString(part) // It never fails.
		_ = h.WriteByte(0)
	}
	key := h.Sum64()
	at, ok := c.recent[key]
	if !ok {
		at, ok = c.earlier[key]
	}
	if since := now.Sub(at); ok && since >= 0 && since < sayAgain {
		return true
	}
	if len(c.recent) >= rememberMost {
		c.recent, c.earlier = map[uint64]time.Time{}, c.recent
	}
	c.recent[key] = now
	return false
}

// take answers with the Events that objects share, the oldest first, and how many objects are in none. What is left is for the next time.
func (c *crowd) take() (out []crowded, unnamed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.alone)
	n := min(len(c.order), shareMost)
	for _, key := range c.order[:n] {
		out = append(out, *c.groups[key])
		delete(c.groups, key)
	}
	c.order = append([]group(nil), c.order[n:]...)
	unnamed, c.unnamed = c.unnamed, 0
	return out, unnamed
}
