package main

import (
	"context"
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
func (q *expiringQuery) cleanup(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, progress *progress) ([]*world.Entry, error) {
	ofCleanup := strings.HasPrefix(q.source, string(policy.TriggerCleanup)+"/")
	if q.longer != nil || q.trigger != "" && q.trigger != policy.TriggerCleanup || q.source != "" && !ofCleanup {
		return nil, nil
	}
	selector, err := labels.Parse(q.selector)
	if err != nil {
		return nil, err
	}
	all, unread, err := w.CleanupPolicies(ctx, reading.Namespace, false)
	if err != nil {
		return nil, err
	}
	r := &runs{w: w, within: q.runs}
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
		return nil, err
	}
	var out []*world.Entry
	for _, one := range due {
		progress.say("evaluating %s", one.policy.ID())
		err := r.found(ctx, one, func(entry *world.Entry, kept bool) {
			elsewhere := reading.Namespace != "" && !entry.Kind.ClusterScoped && entry.Namespace != reading.Namespace
			if !kept && !elsewhere && selector.Matches(labels.Set(entry.Labels)) && q.matches(entry) {
				out = append(out, entry)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if !ofCleanup && q.trigger == "" { // Asked for all that is deleted.
		r.idle = nil
	}
	r.note(unread)
	return out, nil
}

// runs are the first and the last run of a policy in the time that is asked about. Without one, it
// is the next run alone.
func (q *expiringQuery) runs(p *cleanup.Policy) []time.Time {
	after := q.now
	if q.span != nil && q.span.From.After(after) {
		after = q.span.From.Add(-1)
	}
	next := p.Schedule.Next(after)
	switch {
	case next.IsZero() || q.span != nil && !q.span.Contains(next):
		return nil
	case q.span == nil:
		return []time.Time{next}
	}
	if last, _ := p.Schedule.Latest(next, q.span.To.Add(-1)); !last.IsZero() {
		return []time.Time{next, last}
	}
	return []time.Time{next}
}
