package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
)

// cleanupRun is the next run of a cleanup policy that matches an object. A run that keeps the
// object has the reason as its blocker.
type cleanupRun struct {
	*world.Entry
	kept bool
}

// cleanups are the next runs of cleanup policies, by kind and namespace of their objects. Each kind
// of a namespace is evaluated once.
type cleanups map[string]*cleaned

// cleaned are the runs by the UID of their objects, and which further runs may exist.
type cleaned struct {
	runs    map[types.UID][]cleanupRun
	unknown []string
}

// of returns the runs that match an object, and what is not known of other runs.
func (c cleanups) of(ctx context.Context, w *world.World, kind world.Kind, namespace string, uid types.UID, now time.Time) (found []cleanupRun, unknown []string, err error) {
	key := kind.GroupResource().String() + " " + namespace
	if c[key] == nil {
		if c[key], err = evaluated(ctx, w, kind, namespace, now); err != nil {
			delete(c, key)
			return nil, nil, err
		}
	}
	return c[key].runs[uid], c[key].unknown, nil
}

func evaluated(ctx context.Context, w *world.World, kind world.Kind, namespace string, now time.Time) (*cleaned, error) {
	all, unread, err := w.CleanupPolicies(ctx, namespace, kind.ClusterScoped)
	if err != nil {
		return nil, err
	}
	r := &runs{w: w, now: now, within: func(stored *world.CleanupPolicy, p *cleanup.Policy) []time.Time {
		next := p.Schedule.Upcoming(now, 1)
		if late := overdue(stored, p, now); !late.IsZero() {
			next = append([]time.Time{late}, next...)
		}
		return next
	}}
	r.only.Namespace = namespace
	r.only.Resource = func(resource schema.GroupResource) bool { return resource == kind.GroupResource() }
	due, err := r.due(ctx, all)
	if err != nil {
		return nil, err
	}
	out := &cleaned{runs: map[types.UID][]cleanupRun{}}
	for _, one := range due {
		err := r.found(ctx, one, func(entry *world.Entry, kept bool) {
			out.runs[entry.UID] = append(out.runs[entry.UID], cleanupRun{entry, kept})
		})
		if err != nil {
			return nil, err
		}
	}
	r.note(unread)
	if out.unknown = r.unknown; len(unread) > 0 {
		out.unknown = append(out.unknown, unreadText(unread))
	}
	return out, nil
}

func (r *cleanupRun) when(now time.Time) string {
	when := instant(r.Expiry, now.Location()) + ", " + relative(r.Expiry, now)
	if !r.Expiry.After(now) {
		return "soon (due " + when + ")"
	}
	return when
}

// text says what the run does with the object.
func (r *cleanupRun) text(now time.Time) string {
	when := r.when(now)
	switch blocker := r.Blocker(); {
	case r.kept:
		return "keeps it " + when + ": " + blocker.Message
	case blocker != nil:
		return "would delete it " + when + ", but " + blocker.Message
	case r.Uncertain && len(r.Obstacles) > 0:
		return "may delete it " + when + ": " + r.Obstacles[0].Message
	case r.Uncertain:
		return "may delete it " + when
	default:
		return "deletes it " + when
	}
}

func (e *explained) cleanupRows() [][]string {
	var out [][]string
	for i := range e.cleanups {
		out = append(out, []string{"   " + e.cleanups[i].Source.String(), e.cleanups[i].text(e.now)})
	}
	for _, what := range e.cleanupsUnknown {
		out = append(out, []string{"   not known: " + what})
	}
	return out
}

// cleanedFirst is the run that deletes the object, or may, before its own expiry; nil for none. It
// is a blocked run where the object has no other expiry.
func (e *explained) cleanedFirst() *cleanupRun {
	first := firstRun(e.cleanups)
	if first == nil {
		return nil
	}
	blocked := first.Blocker() != nil
	for _, entry := range e.entries {
		if entry.Trigger == policy.TriggerDeadline {
			continue
		}
		own := !entry.Expiry.IsZero() && (!e.held() || entry.Native != nil)
		if stays := entry.Value.Never && !entry.ByOutcome; own && entry.Expiry.Before(first.Expiry) || blocked && !stays {
			return nil
		}
	}
	return first
}

// firstRun is the first run that deletes an object, or may. If all of them are blocked, it is the
// first of these; nil for none.
func firstRun(all []cleanupRun) (first *cleanupRun) {
	for i := range all {
		run := &all[i]
		switch {
		case run.kept:
		case first == nil, first.Blocker() != nil && run.Blocker() == nil:
			first = run
		case (run.Blocker() == nil) == (first.Blocker() == nil) && run.Expiry.Before(first.Expiry):
			first = run
		}
	}
	return first
}

func (e *explained) cleanupSummary(run *cleanupRun) string {
	when := run.when(e.now)
	if blocker := run.Blocker(); blocker != nil {
		return fmt.Sprintf("stays, although the next run of %s would delete it %s: %s", run.Source, when, blocker.Message)
	}
	if run.Uncertain {
		return fmt.Sprintf("may be deleted %s, by the next run of %s: see below", when, run.Source)
	}
	return fmt.Sprintf("expires %s: the next run of %s deletes it", when, run.Source)
}

type cleanupRunData struct {
	Source  string     `json:"source" doc:"cleanup/NAME or cleanup/NAMESPACE/NAME"`
	Run     *time.Time `json:"run" doc:"when the policy runs next"`
	Result  string     `json:"result" doc:"WouldDelete, Skipped, Blocked, or Unknown"`
	Message string     `json:"message,omitempty"`
}

func (e *explained) cleanupData() []cleanupRunData {
	var out []cleanupRunData
	for i := range e.cleanups {
		run := &e.cleanups[i]
		one := cleanupRunData{Source: run.Source.String(), Run: timeData(run.Expiry, e.now), Result: wouldDelete}
		switch {
		case run.kept:
			one.Result = resultSkip
		case run.Blocker() != nil:
			one.Result = "Blocked"
		case run.Uncertain:
			one.Result = "Unknown"
		}
		if len(run.Obstacles) > 0 {
			one.Message = run.Obstacles[0].Message
		}
		out = append(out, one)
	}
	return out
}
