package feed

import (
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// repeatAfter is how long until the same report is written again. The API server keeps Events
	// for an hour.
	repeatAfter = 25 * time.Minute
	// maxRemembered bounds how many reports are remembered, twice.
	maxRemembered = 10_000
	// burst and perSecond bound the Events on single objects, and maxAlone those in one namespace
	// between two flushes: one tenant must not use up the Events of the others.
	burst, perSecond = 100, 5
	maxAlone         = 20
	// shareEvery is how often shared Events are written, maxShared how many at a time, and
	// maxGroups how many may wait.
	shareEvery = time.Minute
	maxShared  = 60
	maxGroups  = 1000
	// maxNames is how many names a shared Event gives.
	maxNames = 3
)

// report is one report on one object.
type report struct {
	on             *corev1.ObjectReference
	reason, action string
	// what describes the problem. All objects that share an Event have the same.
	what, text string
}

// outcome says whether and how a report was made.
type outcome uint8

const (
	// reportedBefore: the same was reported on this object a while ago.
	reportedBefore outcome = iota
	// reportedAlone: the object has an Event of its own.
	reportedAlone
	// reportedTogether: it is counted in an Event that objects share.
	reportedTogether
)

// eventBudget decides which reports become Events of their own. Its memory is bounded.
type eventBudget struct {
	seed maphash.Seed

	mu sync.Mutex
	// recent and earlier are when something was last reported. When recent is full it becomes
	// earlier.
	recent, earlier map[uint64]time.Time
	tokens          float64
	filled          time.Time
	alone           map[string]int // by namespace, since the last flush
	groups          map[group]*sharedEvent
	order           []group
	unnamed         int // counted in no group
}

// group identifies the Event that objects share.
type group struct{ namespace, apiVersion, kind, reason, what string }

// sharedEvent is an Event that objects share.
type sharedEvent struct {
	group
	action, text string
	example      corev1.ObjectReference
	names        []string
	count        int
}

func newEventBudget() *eventBudget {
	return &eventBudget{
		seed: maphash.MakeSeed(), recent: map[uint64]time.Time{}, earlier: map[uint64]time.Time{}, tokens: burst,
		alone: map[string]int{}, groups: map[group]*sharedEvent{},
	}
}

// admit decides how a report is made.
func (b *eventBudget) admit(of *report, now time.Time) outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.before(of, now) {
		return reportedBefore
	}
	b.tokens = min(burst, b.tokens+perSecond*max(0, now.Sub(b.filled).Seconds()))
	b.filled = now
	if namespace := of.on.Namespace; b.tokens >= 1 && b.alone[namespace] < maxAlone {
		b.tokens--
		b.alone[namespace]++
		return reportedAlone
	}
	key := group{of.on.Namespace, of.on.APIVersion, of.on.Kind, of.reason, of.what}
	one := b.groups[key]
	switch {
	case one != nil:
	case len(b.groups) < maxGroups:
		one = &sharedEvent{group: key, action: of.action, text: cut(of.text), example: *of.on}
		b.groups[key] = one
		b.order = append(b.order, key)
	default:
		b.unnamed++
		return reportedTogether
	}
	one.count++
	if len(one.names) < maxNames {
		one.names = append(one.names, of.on.Name)
	}
	return reportedTogether
}

// before reports whether the same was reported on the object lately, and remembers this report.
func (b *eventBudget) before(of *report, now time.Time) bool {
	var h maphash.Hash
	h.SetSeed(b.seed)
	for _, part := range []string{string(of.on.UID), of.reason, of.text} {
		_, _ = h.WriteString(part) // It never fails.
		_ = h.WriteByte(0)
	}
	key := h.Sum64()
	at, ok := b.recent[key]
	if !ok {
		at, ok = b.earlier[key]
	}
	if since := now.Sub(at); ok && since >= 0 && since < repeatAfter {
		return true
	}
	if len(b.recent) >= maxRemembered {
		b.recent, b.earlier = map[uint64]time.Time{}, b.recent
	}
	b.recent[key] = now
	return false
}

// take returns the oldest Events that objects share, and how many objects are counted in none. The
// next call returns the remaining Events.
func (b *eventBudget) take() (out []sharedEvent, unnamed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.alone)
	n := min(len(b.order), maxShared)
	for _, key := range b.order[:n] {
		out = append(out, *b.groups[key])
		delete(b.groups, key)
	}
	b.order = append([]group(nil), b.order[n:]...)
	unnamed, b.unnamed = b.unnamed, 0
	return out, unnamed
}
