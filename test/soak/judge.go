package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// announcements are what the second writer is about to do, told before it does it, so that its
// deletions are not taken for Curfew's.
type announcements struct {
	mu         sync.Mutex
	deletes    map[string]time.Time // by UID
	finalizers map[string]time.Time
}

func newAnnouncements() *announcements {
	return &announcements{deletes: map[string]time.Time{}, finalizers: map[string]time.Time{}}
}

func (a *announcements) delete(uid string)    { a.note(a.deletes, uid) }
func (a *announcements) finalizer(uid string) { a.note(a.finalizers, uid) }

func (a *announcements) note(in map[string]time.Time, uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := in[uid]; !known {
		in[uid] = time.Now()
	}
}

func (a *announcements) announced(in map[string]time.Time, uid string) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := in[uid]
	return at, ok
}

// disruption is something that went on for a while.
type disruption struct {
	name     string
	from, to time.Time
}

// staleness is how long before the API server received a DELETE a change of a namespace, a policy
// or a KindProfile may have been made that Curfew did not know yet: it is told by a watch, in
// milliseconds, or a second on a machine whose cores are all busy. An object's own state gets no
// such tolerance, since the DELETE names its resourceVersion. While connections stall or servers
// are away, the time grows by as much.
const staleness = 2 * time.Second

// verdicts are what the judge came to.
type verdicts struct {
	lives, deletions, byWriter, remaining int
	early, wrong, forgotten               []string
	// lateness of each deletion by Curfew, of those without a disruption nearby, and of those that the
	// DELETE webhook troubled.
	lateness, calm, troubled []time.Duration
	live                     int           // deletions whose expiry hung on a namespace or a policy
	grain                    time.Duration // how precisely the instants of the deletions are known, at worst, outages aside
}

// calmBefore is how long before an expiry nothing may have been broken for its lateness to count as
// calm: after an outage watches come back with a backoff, and what fell due meanwhile goes first.
const calmBefore = 5 * time.Second

// evidence is the judge's input, beside the ledger.
type evidence struct {
	beats     *heartbeats
	told      *announcements
	disrupted []disruption
	// received is when the API server received the DELETE that it carried out, by UID, and troubled
	// reports whether the DELETE webhook refused or delayed one for this UID.
	received map[string]time.Time
	troubled func(uid string) bool
	end      time.Time
}

// sentence judges all that the ledger holds.
func sentence(l *ledger, by *evidence) *verdicts {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &verdicts{lives: len(l.lives)}
	for uid, one := range l.lives {
		if one.deletion == nil {
			v.remaining++
			if answer := judge(one.last, l.around(one.last)); answer.never == "" && answer.at.Before(by.end) {
				v.forgotten = append(v.forgotten, fmt.Sprintf("%s was due at %s and is still there", describe(one.last), clockTime(answer.at)))
			} else if one.last.finished && one.last.finish.IsZero() && answer.never != "" && one.last.annotations[prefix+"ttl-after-finished"] != "" {
				v.forgotten = append(v.forgotten, describe(one.last)+" has finished, and its finish time was never written")
			}
			continue
		}
		earliest, latest := by.beats.bounds(one.deletion.revision, one.deletion.seen)
		if at, ok := by.told.announced(by.told.deletes, uid); ok && !at.After(latest) {
			v.byWriter++
			continue
		}
		v.deletions++
		if !disturbed(by.disrupted, latest.Add(-time.Second), latest) {
			v.grain = max(v.grain, latest.Sub(earliest))
		}
		v.deletion(l, one.deletion, earliest, latest, by)
	}
	for _, lost := range l.lost {
		if _, ok := by.told.announced(by.told.finalizers, lost.uid); !ok {
			v.wrong = append(v.wrong, fmt.Sprintf("%s (uid %s) lost finalizer %s, and it was not the writer", lost.name, lost.uid, lost.finalizer))
		}
	}
	for _, list := range [][]string{v.early, v.wrong, v.forgotten} {
		slices.Sort(list)
	}
	slices.Sort(v.lateness)
	slices.Sort(v.calm)
	slices.Sort(v.troubled)
	return v
}

// deletion judges one of Curfew's.
func (v *verdicts) deletion(l *ledger, d *deletion, earliest, latest time.Time, by *evidence) {
	received, ok := by.received[d.of.uid]
	if !ok {
		// The API server was killed before it wrote the audit log. The request had not waited for longer
		// than the webhook may take.
		received = earliest.Add(-webhookTimeout)
	}
	from := reach(by.disrupted, received)
	var answers []due
	var soonest *due
	var known time.Time // since when it could be known that the object is due
	for _, namespace := range between(l.namespaces[d.of.namespace], from, latest) {
		for _, policy := range between(l.rules, from, latest) {
			for _, profile := range between(l.profiles, from, latest) {
				answer := judge(d.of, circumstances{namespace, policy, profile})
				if answers = append(answers, answer); answer.never != "" || soonest != nil && !answer.at.Before(soonest.at) {
					continue
				}
				soonest, known = &answer, later(answer.at, d.of.seen) // it became due by being written to
				if namespace != nil {
					known = later(known, namespace.lifted)
				}
				if profile != nil && d.of.custom != nil {
					known = later(known, profile.seen)
				}
			}
		}
	}
	switch {
	case soonest == nil:
		v.wrong = append(v.wrong, fmt.Sprintf("%s was deleted at %s and %s", describe(d.of), clockTime(latest), answers[0].never))
	case latest.Before(soonest.at):
		v.early = append(v.early, fmt.Sprintf("%s was deleted at %s, %s before its expiry", describe(d.of), clockTime(latest), soonest.at.Sub(latest)))
	default:
		late := max(0, d.seen.Sub(known))
		switch v.lateness = append(v.lateness, late); {
		case by.troubled(d.of.uid):
			v.troubled = append(v.troubled, late)
		case !disturbed(by.disrupted, known.Add(-calmBefore), d.seen):
			v.calm = append(v.calm, late)
		}
		if soonest.live {
			v.live++
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// word is a value, and the instant from which it applies.
type word interface{ when() time.Time }

func (s *surroundings) when() time.Time { return s.seen }
func (r *rule) when() time.Time         { return r.seen }
func (c *correction) when() time.Time   { return c.seen }

// between are the words that were the last at some time between two instants; one nil where nothing
// was ever said.
func between[T word](said []T, from, to time.Time) []T {
	out := []T{}
	for i, one := range said {
		if i+1 < len(said) && said[i+1].when().Before(from) {
			continue // replaced before that
		}
		if one.when().After(to) && len(out) > 0 {
			break
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		var none T
		out = append(out, none)
	}
	return out
}

// reach goes back from an instant as far as a word may be stale.
func reach(disrupted []disruption, at time.Time) time.Time {
	from := at.Add(-staleness)
	for again := true; again; {
		again = false
		for _, d := range disrupted {
			if start := d.from.Add(-staleness); from.After(start) && !from.After(d.to.Add(staleness)) {
				from, again = start, true
			}
		}
	}
	return from
}

func disturbed(disrupted []disruption, from, to time.Time) bool {
	return slices.ContainsFunc(disrupted, func(d disruption) bool { return d.from.Before(to) && d.to.After(from) })
}

func describe(s *state) string {
	return fmt.Sprintf("%s %s/%s (uid %s, resourceVersion %d)", s.kind, s.namespace, s.name, s.uid, s.revision)
}

func clockTime(at time.Time) string { return at.Format("15:04:05.000") }
