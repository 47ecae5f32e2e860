package preview

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// upcoming is how many runs a preview shows.
const upcoming = 5

// Object is one that the policy matches.
type Object struct {
	schema.GroupVersionKind
	Resource, Namespace, Name, UID string
	Labels                         map[string]string
	Created                        time.Time
	// Reason to keep it, with a message; empty if it is deleted.
	Reason, Message string
	// Until is the run that deletes it, where minUnused is the reason.
	Until time.Time
}

// Result is the result of a run of the policy.
type Result struct {
	Policy *cleanup.Policy
	Now    time.Time
	// Objects that match, by kind, namespace and name. If the run would stall, they are those that
	// it would delete without the limit.
	Objects []Object
	// Listed objects were judged, and Deleted would be deleted.
	Listed, Deleted int64
	Skipped         []v1alpha1.SkipCount
	// Lacks are permissions that the account does not have: where it lacks one, nothing is deleted.
	Lacks []string
	// Unlisted are kinds that could not be listed, whose objects are kept, with the reason.
	Unlisted []string
	// Nowhere: no place to list is left, with or without the permissions that the account lacks.
	Nowhere bool
	// Stalled is why the run would delete nothing.
	Stalled *survey.StallError
	// Upcoming are the next runs.
	Upcoming []time.Time
}

// Of surveys the objects that a policy would delete.
func Of(ctx context.Context, p *cleanup.Policy, reader survey.Reader, options survey.Options) (*Result, error) {
	out := &Result{Policy: p, Now: options.Now}
	if !p.Spec.Suspend {
		out.Upcoming = p.Schedule.Upcoming(options.Now, upcoming)
	}
	s := survey.New(p, reader, options)
	var err error
	if out.Lacks, err = s.Open(ctx); err != nil {
		return nil, err
	}
	out.Nowhere = s.Nowhere()
	if err := s.Count(ctx, 0); err != nil && !errors.As(err, &out.Stalled) {
		return nil, err
	}
	if out.Stalled != nil && out.Stalled.Reason == v1alpha1.ReasonTooManyGroups {
		return out, nil // What would be kept is not known.
	}
	err = s.Choose(ctx, func(target *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		out.Objects = append(out.Objects, Object{
			GroupVersionKind: target.GroupVersionKind(), Resource: target.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: string(object.GetUID()), Labels: object.GetLabels(), Created: object.GetCreationTimestamp().Time,
			Reason: decision.Reason, Message: decision.Message, Until: decision.Until,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Listed, out.Unlisted = s.Listed, s.Unlisted()
	if out.Stalled == nil {
		out.Deleted = s.Matched
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
		out.Skipped = append(out.Skipped, *s.Skipped[reason])
	}
	slices.SortFunc(out.Objects, compare)
	return out, nil
}

func compare(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// counts are the objects that the run would delete, by kind and namespace.
func (r *Result) counts() []report.CountData {
	var out []report.CountData
	for i := range r.Objects {
		object := &r.Objects[i]
		if object.Reason != "" {
			continue
		}
		last := len(out) - 1
		if last < 0 || out[last].Group != object.Group || out[last].Kind != object.Kind || out[last].Namespace != object.Namespace {
			out = append(out, report.CountData{Group: object.Group, Kind: object.Kind, Namespace: object.Namespace, Result: WouldDelete})
			last++
		}
		out[last].Count++
	}
	return out
}

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
func (c ObjectRuns) Of(ctx context.Context, w *world.World, kind world.Kind, namespace string, uid types.UID, now time.Time) (
	found []ObjectRun, unknown []string, err error) {
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
	r := &Runs{W: w, Now: now, Unapproved: true, Within: func(stored *world.CleanupPolicy, p *cleanup.Policy) []time.Time {
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
	for _, dueRun := range due {
		err := r.Found(ctx, dueRun, func(entry *world.Entry, kept bool) {
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
