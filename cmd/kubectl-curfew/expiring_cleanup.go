package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
)

// cleanup finds what the next runs of cleanup policies delete. Without a policy it costs two lists.
func (q *expiringQuery) cleanup(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, progress *progress) (out []*world.Entry, failed bool, err error) {
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
	r := &runs{w: w, now: q.now, within: q.runs}
	r.only.Namespace = reading.Namespace
	if len(q.kinds) > 0 {
		named := map[schema.GroupResource]bool{}
		for _, kind := range kinds {
			if named[kind.GroupResource()] = true; kind.ClusterScoped {
				r.only.Namespace = ""
			}
		}
		r.only.Resource = func(resource schema.GroupResource) bool { return named[resource] }
	}
	all = slices.DeleteFunc(all, func(one *world.CleanupPolicy) bool { return ofCleanup && one.Source() != q.source })
	due, err := r.due(ctx, all)
	if err != nil {
		return nil, false, err
	}
	for _, one := range due {
		progress.say("evaluating %s", one.policy.ID())
		err := r.found(ctx, one, func(entry *world.Entry, kept bool) {
			elsewhere := reading.Namespace != "" && !entry.Kind.ClusterScoped && entry.Namespace != reading.Namespace
			if !kept && !elsewhere && selector.Matches(labels.Set(entry.Labels)) && q.matches(entry) {
				out = append(out, entry)
			}
		})
		if err != nil {
			return nil, false, err
		}
	}
	if !ofCleanup && q.trigger == "" && len(r.idle) > 0 { // Asked for all that is deleted.
		slices.Sort(r.idle)
		w.Note(fmt.Sprintf("cleanup policies that delete nothing as they are: %d (--trigger cleanup names them)", len(slices.Compact(r.idle))))
		r.idle = nil
	}
	r.note(unread)
	return out, r.failed, nil
}

// runs are those that decide what is deleted in the time that is asked about: its first and its
// last run, with those before it, which may delete an object earlier. Without a time, it is the
// next run.
func (q *expiringQuery) runs(stored *world.CleanupPolicy, p *cleanup.Policy) []time.Time {
	out := []time.Time{overdue(stored, p, q.now), p.Schedule.Next(q.now)}
	if q.span != nil {
		if q.span.From.After(q.now) {
			before, _ := p.Schedule.Latest(q.now, q.span.From.Add(-1))
			out = append(out, before, p.Schedule.Next(q.span.From.Add(-1)))
		}
		last, _ := p.Schedule.Latest(q.now, q.span.To.Add(-1))
		out = append(out, last)
	}
	out = slices.DeleteFunc(out, func(at time.Time) bool { return at.IsZero() || q.span != nil && !at.Before(q.span.To) })
	slices.SortFunc(out, time.Time.Compare)
	out = slices.CompactFunc(out, time.Time.Equal)
	if q.span != nil && !slices.ContainsFunc(out, q.span.Contains) {
		return nil
	}
	return out
}
