package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// announcements are what the second writer is about to do, noted before it does it, so that its
// writes are not taken for Curfew's.
type announcements struct {
	mu    sync.Mutex
	times map[string]time.Time // by what, and UID
}

func (a *announcements) add(what, uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.times[what+uid]; !known {
		a.times[what+uid] = time.Now()
	}
}

// before reports whether the writer had announced something by a time.
func (a *announcements) before(what string, uid types.UID, t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	announced, ok := a.times[what+string(uid)]
	return ok && !announced.After(t)
}

// disruption is something that went on for a while.
type disruption struct {
	name     string
	from, to time.Time
}

// staleness is how long before the API server received a DELETE a change of a namespace, a policy
// or a KindProfile may have been made that Curfew did not know yet: a watch shows it, in
// milliseconds, or a second on a machine whose cores are all busy. While connections stall or
// servers are away, the time grows by as much.
const staleness = 2 * time.Second

// reach goes back from an instant as far as a rule may be stale.
func reach(disrupted []disruption, t time.Time) time.Time {
	from := t.Add(-staleness)
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

// verdict is what a soak came to.
type verdict struct {
	faults              []string
	deletions, byWriter int
	lateness            []time.Duration // of Curfew's deletions, without those that a webhook or a dry-run held
}

// evidence is used beside the ledger.
type evidence struct {
	log       *audit
	told      *announcements
	disrupted []disruption
	troubled  func(uid string) bool // the DELETE webhook refused or delayed a DELETE of this UID
	end       time.Time
}

// sentence gives the judge all that the ledger holds.
func (l *ledger) sentence(by *evidence) *verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &verdict{}
	l.judge.Since = func(sent time.Time) time.Time { return reach(by.disrupted, sent) }
	for _, lost := range l.lost {
		if !by.told.before("finalizer", lost.Before.GetUID(), lost.At) {
			lost.Client = curfew
			l.judge.Add(lost)
		}
	}
	var left []*life
	for uid, life := range l.lives {
		sent := by.log.accepted[uid]
		delete(by.log.accepted, uid)
		switch {
		case life.deletion == nil && len(sent) > 0:
			out.faults = append(out.faults, fmt.Sprintf("S2: a DELETE of %s was accepted, and it was not deleted", describe(life.last)))
		case life.deletion == nil:
			left = append(left, life)
		case len(sent) == 0 && by.told.before("delete", uid, life.deletion.At):
			out.byWriter++
		default:
			out.deletions++
			l.deletion(life, sent)
			if due, why := l.judge.Due(life.deletion); why == "" && !by.troubled(string(uid)) {
				out.lateness = append(out.lateness, max(0, life.deletion.At.Sub(later(due, life.before))))
			}
		}
	}
	for uid, sent := range by.log.accepted {
		out.faults = append(out.faults, fmt.Sprintf("S2: a DELETE of %s was accepted for UID %q, which never existed", sent[0].name, uid))
	}
	for _, life := range left { // Last, since some took the name of another.
		l.judge.Add(recordOf("create", life.of, nil, life.last, life.seen))
	}
	l.judge.Settle(by.end, 0)
	out.faults = append(out.faults, l.judge.Faults()...)
	slices.Sort(out.faults)
	slices.Sort(out.lateness)
	return out
}

// deletion judges one of Curfew's by each DELETE that was accepted. If the API server was killed
// before it wrote the audit log, the request had not waited for longer than the webhook may take.
func (l *ledger) deletion(entry *life, sent []accepted) {
	record := entry.deletion
	record.Client = curfew
	if len(sent) == 0 {
		record.Sent = record.At.Add(-webhookTimeout)
		uid, version := record.Before.GetUID(), record.Before.GetResourceVersion()
		record.Preconditions = &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		l.judge.Add(record)
	}
	for i := range sent {
		next := *record
		next.Sent, next.Preconditions = sent[i].received, &sent[i].wanted
		l.judge.Add(&next)
		record.Sent = next.Sent
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func clockTime(t time.Time) string { return t.Format("15:04:05.000") }

func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(share*float64(len(sorted)-1))].Round(time.Millisecond)
}

// failure is an error where anything was not as it has to be. A few examples of each are named.
func (s *soak) failure(v *verdict, log *audit) error {
	var errs []error
	few := func(what string, list []string) {
		if len(list) > 0 {
			errs = append(errs, fmt.Errorf("%d %s:\n  %s", len(list), what, strings.Join(list[:min(len(list), 10)], "\n  ")))
		}
	}
	few("faults", v.faults)
	few("objects do not go away, though no finalizer is left", s.ledger.terminating())
	few("problems of the ledger, which make it worthless", s.ledger.problems)
	few("requests were refused by RBAC", log.refused(s.chaos.record))
	// A soak in which nothing was put to the test is none.
	if v.deletions < len(s.fleet)/4 || (len(s.chaos.record) == 0) != s.compared || s.compared && len(v.lateness) == 0 {
		errs = append(errs, fmt.Errorf("only %d objects were deleted by Curfew, with %d disruptions: nothing was tried", v.deletions, len(s.chaos.record)))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("seed %d: %w\nlogs are in %s", s.seed, errors.Join(errs...), s.cluster.Dir)
}
