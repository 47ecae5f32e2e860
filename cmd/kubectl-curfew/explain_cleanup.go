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

// cleanups are the next runs of cleanup policies, by kind and namespace and by UID of their
// objects. Each kind of a namespace is evaluated once.
type cleanups map[string]map[types.UID][]cleanupRun

func (c cleanups) of(ctx context.Context, w *world.World, kind world.Kind, namespace string, uid types.UID, now time.Time) ([]cleanupRun, error) {
	key := kind.GroupResource().String() + " " + namespace
	if known, ok := c[key]; ok {
		return known[uid], nil
	}
	all, unread, err := w.CleanupPolicies(ctx, namespace, kind.ClusterScoped)
	if err != nil {
		return nil, err
	}
	r := &runs{w: w, within: func(p *cleanup.Policy) []time.Time { return p.Schedule.Upcoming(now, 1) }}
	r.only.Namespace = namespace
	r.only.Resource = func(resource schema.GroupResource) bool { return resource == kind.GroupResource() }
	due, err := r.due(ctx, all)
	if err != nil {
		return nil, err
	}
	found := map[types.UID][]cleanupRun{}
	for _, one := range due {
		err := r.found(ctx, one, func(entry *world.Entry, kept bool) {
			found[entry.UID] = append(found[entry.UID], cleanupRun{entry, kept})
		})
		if err != nil {
			return nil, err
		}
	}
	r.note(unread)
	c[key] = found
	return found[uid], nil
}

// text says what the run does with the object.
func (r *cleanupRun) text(now time.Time) string {
	when := instant(r.Expiry, now.Location()) + ", " + relative(r.Expiry, now)
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
	return out
}

// cleanedFirst is the run that deletes the object, or may, before its own expiry; nil for none.
func (e *explained) cleanedFirst() *cleanupRun {
	var first *cleanupRun
	for i := range e.cleanups {
		if run := &e.cleanups[i]; run.Blocker() == nil && (first == nil || run.Expiry.Before(first.Expiry)) {
			first = run
		}
	}
	for _, entry := range e.entries {
		own := entry.Trigger != policy.TriggerDeadline && !entry.Expiry.IsZero() && (!e.held() || entry.Native != nil)
		if first != nil && own && entry.Expiry.Before(first.Expiry) {
			return nil
		}
	}
	return first
}

func (e *explained) cleanupSummary(run *cleanupRun) string {
	when := fmt.Sprintf("%s, %s", instant(run.Expiry, e.now.Location()), relative(run.Expiry, e.now))
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
