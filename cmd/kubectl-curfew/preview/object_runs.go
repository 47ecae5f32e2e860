package preview

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/cleanup"
)

// ObjectRun is the next run of a cleanup policy that matches an object. A run that keeps the
// object has the reason as its blocker.
type ObjectRun struct {
	*world.Entry
	Kept bool
}

// ObjectRuns are the next runs of cleanup policies, by kind and namespace of their objects. Each
// kind of a namespace is evaluated once.
type ObjectRuns map[string]*cleaned

// cleaned are the runs by the UID of their objects, and which further runs may exist.
type cleaned struct {
	runs    map[types.UID][]ObjectRun
	unknown []string
}

// Of returns the runs that match an object. unknown names policies whose runs it cannot judge.
func (c ObjectRuns) Of(ctx context.Context, w *world.World, kind world.Kind, namespace string, uid types.UID, now time.Time) (found []ObjectRun, unknown []string, err error) {
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
	r := &Runs{W: w, Now: now, Within: func(stored *world.CleanupPolicy, p *cleanup.Policy) []time.Time {
		next := p.Schedule.Upcoming(now, 1)
		if late := Overdue(stored, p, now); !late.IsZero() {
			next = append([]time.Time{late}, next...)
		}
		return next
	}}
	r.Only.Namespace = namespace
	r.Only.Resource = func(resource schema.GroupResource) bool { return resource == kind.GroupResource() }
	due, err := r.Due(ctx, all)
	if err != nil {
		return nil, err
	}
	out := &cleaned{runs: map[types.UID][]ObjectRun{}}
	for _, one := range due {
		err := r.Found(ctx, one, func(entry *world.Entry, kept bool) {
			out.runs[entry.UID] = append(out.runs[entry.UID], ObjectRun{entry, kept})
		})
		if err != nil {
			return nil, err
		}
	}
	r.Note(unread)
	if out.unknown = r.unknown; len(unread) > 0 {
		out.unknown = append(out.unknown, unreadText(unread))
	}
	return out, nil
}

func (r *ObjectRun) When(now time.Time) string {
	when := console.Instant(r.Expiry, now.Location()) + ", " + console.Relative(r.Expiry, now)
	if !r.Expiry.After(now) {
		return "soon (due " + when + ")"
	}
	return when
}

// Text says what the run does with the object.
func (r *ObjectRun) Text(now time.Time) string {
	when := r.When(now)
	switch blocker := r.Blocker(); {
	case r.Kept:
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

// FirstRun is the first run that deletes an object, or may. If all of them are blocked, it is the
// first of these; nil for none.
func FirstRun(all []ObjectRun) (first *ObjectRun) {
	for i := range all {
		run := &all[i]
		switch {
		case run.Kept:
		case first == nil, first.Blocker() != nil && run.Blocker() == nil:
			first = run
		case (run.Blocker() == nil) == (first.Blocker() == nil) && run.Expiry.Before(first.Expiry):
			first = run
		}
	}
	return first
}
