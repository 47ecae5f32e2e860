package expiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
)

// cleanup finds what the next runs of cleanup policies delete. Without a policy it costs two lists.
func (q *expiringQuery) cleanup(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, progress *console.Progress) (
	out []*world.Entry, failed bool, err error) {
	ofCleanup := strings.HasPrefix(q.source, string(policy.TriggerCleanup)+"/")
	if q.longer != nil || q.trigger != "" && q.trigger != policy.TriggerCleanup || q.source != "" && !ofCleanup {
		return nil, false, nil
	}
	selector, err := labels.Parse(q.selector)
	if err != nil {
		return nil, false, err
	}
	all, unread, err := w.CleanupPolicies(ctx, reading.Namespace, false)
	if err != nil {
		return nil, false, err
	}
	r := &preview.Runs{W: w, Now: q.now, Within: q.runs}
	r.Only.Namespace = reading.Namespace
	if len(q.kinds) > 0 {
		named := map[schema.GroupResource]bool{}
		for _, kind := range kinds {
			if named[kind.GroupResource()] = true; kind.ClusterScoped {
				r.Only.Namespace = ""
			}
		}
		r.Only.Resource = func(resource schema.GroupResource) bool { return named[resource] }
	}
	all = slices.DeleteFunc(all, func(c *world.CleanupPolicy) bool { return ofCleanup && c.Source() != q.source })
	due, err := r.Due(ctx, all)
	if err != nil {
		return nil, false, err
	}
	for _, dueRun := range due {
		progress.Say("evaluating %s", dueRun.Policy.ID())
		err := r.Found(ctx, dueRun, func(entry *world.Entry, kept bool) {
			elsewhere := reading.Namespace != "" && !entry.Kind.ClusterScoped && entry.Namespace != reading.Namespace
			if !kept && !elsewhere && selector.Matches(labels.Set(entry.Labels)) && q.matches(entry) {
				out = append(out, entry)
			}
		})
		if err != nil {
			return nil, false, err
		}
	}
	if !ofCleanup && q.trigger == "" && len(r.Idle) > 0 { // Asked for all that is deleted.
		slices.Sort(r.Idle)
		w.Note(fmt.Sprintf("cleanup policies that delete nothing as they are: %d (--trigger cleanup names them)", len(slices.Compact(r.Idle))))
		r.Idle = nil
	}
	r.Note(unread)
	return out, r.Failed, nil
}

// runs returns the runs that delete objects in the time that the user asks about: its first and its
// last run, with those before it, which may delete an object earlier. Without a time, it is the
// next run.
func (q *expiringQuery) runs(stored *world.CleanupPolicy, p *cleanup.Policy) []time.Time {
	out := []time.Time{preview.Overdue(stored, p, q.now), p.Schedule.Next(q.now)}
	if q.span != nil {
		if q.span.From.After(q.now) {
			before, _ := p.Schedule.Latest(q.now, q.span.From.Add(-1))
			out = append(out, before, p.Schedule.Next(q.span.From.Add(-1)))
		}
		last, _ := p.Schedule.Latest(q.now, q.span.To.Add(-1))
		out = append(out, last)
	}
	out = slices.DeleteFunc(out, func(t time.Time) bool { return t.IsZero() || q.span != nil && !t.Before(q.span.To) })
	slices.SortFunc(out, time.Time.Compare)
	out = slices.CompactFunc(out, time.Time.Equal)
	if q.span != nil && !slices.ContainsFunc(out, q.span.Contains) {
		return nil
	}
	return out
}

// expiringNamespaces are the expiries that match a query of the Namespace that is asked about, or
// of all where kinds were named. Their deletion deletes everything in them. None where Namespaces
// are listed anyway, or only cluster-scoped kinds are.
func expiringNamespaces(ctx context.Context, w *world.World, kinds []world.Kind, namespace string, query *expiringQuery) (
	[]*world.Entry, error) {
	namespaced := slices.ContainsFunc(kinds, func(kind world.Kind) bool { return !kind.ClusterScoped })
	if !namespaced || slices.ContainsFunc(kinds, world.Kind.IsNamespace) {
		return nil, nil
	}
	entries, err := w.NamespaceEntries(ctx, namespace, query.now)
	if err != nil {
		return nil, err
	}
	var out []*world.Entry
	for i := range entries {
		if query.matches(&entries[i]) {
			out = append(out, &entries[i])
		}
	}
	slices.SortFunc(out, byTime)
	return out, nil
}

// namespacesText says that objects are deleted with their Namespaces, whatever they say themselves.
func namespacesText(entries []*world.Entry, now time.Time) string {
	if len(entries) == 1 {
		return fmt.Sprintf("Namespace %s expires %s, and everything in it is deleted with it", entries[0].Name, session.Expires(entries[0], now.Location()))
	}
	names := console.Map(entries, func(entry *world.Entry) string { return entry.Name })
	return fmt.Sprintf("%s expire, and everything in them is deleted with them: %s. See kubectl curfew expiring namespaces -A",
		console.Count(len(entries), "Namespace"), strings.TrimSuffix(session.Some(names), "."))
}

// listsAtOnce is how many kinds are listed at the same time.
const listsAtOnce = 8

// gather lists all kinds and keeps the entries that match the query. A kind that cannot be listed
// and was not named is left out.
func gather(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, query *expiringQuery,
	progress *console.Progress) ([]*world.Entry, []leftOut, error) {
	var mu sync.Mutex
	found := map[types.UID][]*world.Entry{}
	var left []leftOut
	objects, listed := 0, 0
	say := func() {
		progress.Say("listed %d of %s, %s", listed, console.Count(len(kinds), "kind"), console.Count(objects, "object"))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listsAtOnce)
	for _, kind := range kinds {
		group.Go(func() error {
			err := w.EachOf(ctx, kind, reading, func(object map[string]any) error {
				entries, err := w.Entries(ctx, kind, object, query.now)
				if err != nil {
					return err
				}
				if err := w.Follow(ctx, object, entries, query.now); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				objects++
				say()
				if uid := world.UIDOf(object); uid != "" {
					delete(found, uid) // as it was before
				}
				for i := range entries {
					if entry := &entries[i]; query.matches(entry) {
						found[entry.UID] = append(found[entry.UID], entry)
					}
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			listed++
			say()
			if err == nil || len(query.kinds) > 0 || !answered(err) {
				return err
			}
			left = append(left, leftOut{kind, err})
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return slices.Concat(slices.Collect(maps.Values(found))...), left, nil
}

// leftOut is a kind that cannot be listed, with the reason.
type leftOut struct {
	kind world.Kind
	err  error
}

// answered reports whether an error is an answer of the API server, which concerns one kind, and
// not a failed connection.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// noteLeftOut notes which kinds cannot be listed, for lack of a permission or, for example, because
// a conversion webhook fails. It returns the latter, which may end. It is an error if the user may
// list no namespaced kind: since 1.37 everybody may list ClusterTrustBundles, which would be no
// answer. A kind that is gone is not left out.
func noteLeftOut(w *world.World, left []leftOut, kinds []world.Kind, reading world.Query) (unanswered string, err error) {
	left = slices.DeleteFunc(slices.Clone(left), func(l leftOut) bool { return world.Gone(l.err) })
	slices.SortFunc(left, func(a, b leftOut) int {
		return strings.Compare(a.kind.GroupResource().String(), b.kind.GroupResource().String())
	})
	var refused, failed []string
	var first error
	unseen := map[schema.GroupResource]bool{}
	for _, leftOut := range left {
		switch {
		case world.Refused(leftOut.err):
			refused = append(refused, leftOut.kind.GroupResource().String())
			unseen[leftOut.kind.GroupResource()] = true
		case len(left) == len(kinds):
			return "", leftOut.err
		default:
			failed = append(failed, leftOut.kind.GroupResource().String())
			first = cmp.Or(first, leftOut.err)
		}
	}
	if len(failed) > 0 { // One note, though all may fail for one reason.
		why := console.OneLine(first.Error())
		unanswered = fmt.Sprintf("%s cannot be listed, and their expiries are not known: %s", session.Some(failed), why)
	}
	switch {
	case len(refused) == 0:
		return unanswered, nil
	case slices.ContainsFunc(kinds, func(kind world.Kind) bool { return !kind.ClusterScoped && !unseen[kind.GroupResource()] }):
		w.Note("you may not list " + session.Some(refused) + ": their expiries are not known")
		return unanswered, nil
	case reading.Namespace == "":
		return "", errors.New("you may not list anything in all namespaces: give one with -n, or name kinds")
	default:
		return "", fmt.Errorf("you may not list anything in namespace %q: give another with -n", reading.Namespace)
	}
}
