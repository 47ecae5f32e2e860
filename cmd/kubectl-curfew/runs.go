package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// runsAtMost bounds how many cleanup policies one command evaluates: each lists what it matches.
const runsAtMost = 50

// runs evaluates the next runs of cleanup policies.
type runs struct {
	w *world.World
	// only is the part of the cluster that is asked about.
	only survey.Only
	now  time.Time
	// within returns the runs of a policy that are evaluated, in order.
	within func(*world.CleanupPolicy, *cleanup.Policy) []time.Time
	// idle are policies whose runs delete nothing, and unknown those that cannot be evaluated, each
	// with the reason.
	idle, unknown []string
	// failed: the API server failed to answer, so that unknown may be known later.
	failed bool
}

// due are the policies that have a run in the window and may delete objects in it, by time.
func (r *runs) due(ctx context.Context, all []*world.CleanupPolicy) ([]*dueRun, error) {
	served, err := r.w.Resources(ctx)
	if silent := cleanup.SilentGroups(nil); err != nil && !errors.As(err, &silent) {
		return nil, err
	}
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	var out []*dueRun
	for _, stored := range all {
		p, errs := stored.Compile(compiler)
		if len(errs) > 0 {
			continue // It never runs: kubectl curfew status names it.
		}
		one := &dueRun{stored: stored, policy: p, at: r.within(stored, p)}
		if len(one.at) == 0 || !slices.ContainsFunc(p.Targets(served), r.concerns) {
			continue
		}
		why, err := one.idle(ctx, r.w)
		if err != nil {
			return nil, err
		}
		if why != "" {
			r.idle = append(r.idle, p.ID()+" ("+why+")")
			continue
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b *dueRun) int { return a.at[0].Compare(b.at[0]) })
	if more := len(out) - runsAtMost; more > 0 {
		out = out[:runsAtMost]
		r.unknown = append(r.unknown, fmt.Sprintf("%d more cleanup policies, which are not evaluated: name a namespace or a shorter time", more))
	}
	return out, nil
}

func (r *runs) concerns(target cleanup.Target) bool {
	return (r.only.Resource == nil || r.only.Resource(target.GroupResource())) && (r.only.Namespace == "" || target.Namespaced)
}

// found passes the entries of the objects that a run matches to take, and whether the run keeps
// them. Those that a later run of the window deletes have its time as the latest one.
func (r *runs) found(ctx context.Context, due *dueRun, take func(entry *world.Entry, kept bool)) error {
	seen := map[string]bool{}
	for i, at := range due.at {
		later := i > 0
		between := later && due.policy.Schedule.Next(due.at[i-1]).Before(at) // A run that is not evaluated.
		start := at
		if start.Before(r.now) { // It is late, and starts now.
			start = r.now
		}
		result, doubt, err := r.evaluate(ctx, due, start)
		if err != nil || result == nil {
			return err
		}
		for i := range result.Objects {
			object := &result.Objects[i]
			unsure := doubtOf(object, doubt, later)
			kept := object.Reason != "" && unsure == nil
			if seen[object.UID] {
				continue
			}
			seen[object.UID] = !kept
			entry := &world.Entry{
				Kind:      world.Kind{GroupVersionKind: object.GroupVersionKind, Resource: object.Resource, ClusterScoped: object.Namespace == ""},
				Namespace: object.Namespace, Name: object.Name, UID: types.UID(object.UID), Labels: object.Labels, Created: object.Created,
				Trigger: policy.TriggerCleanup, Source: due.source(), Expiry: at, Estimated: between,
			}
			if unsure != nil {
				entry.Uncertain, entry.Obstacles = true, []policy.Obstacle{*unsure}
			}
			if kept {
				entry.Obstacles = []policy.Obstacle{{Kind: policy.ObstacleLimit, Message: object.Message, Stops: true}}
			} else {
				r.w.BlockRun(entry)
			}
			take(entry, kept)
		}
	}
	return nil
}

// evaluate previews a run; result is nil if it deletes nothing, or cannot be evaluated.
func (r *runs) evaluate(ctx context.Context, due *dueRun, at time.Time) (result *preview.Result, doubt *policy.Obstacle, err error) {
	p, doubt := due.policy, due.doubt
	if part := r.only.Resource != nil || r.only.Namespace != "" && p.Namespace == ""; part && p.Limited() {
		doubt = limited
		unlimited, spec := *p, *p.Spec
		spec.MaxDeletions, spec.MaxPercentage = nil, nil
		unlimited.Spec = &spec
		p = &unlimited
	}
	result, account, err := previewRun(ctx, r.w, due.stored, p, r.only, at)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		r.failed = r.failed || failure(err)
		r.unknown = append(r.unknown, p.ID()+": "+oneLine(err.Error()))
		return nil, nil, nil
	case result.Stalled != nil:
		r.idle = append(r.idle, p.ID()+" ("+result.Stalled.Reason+")")
		return nil, nil, nil
	case account.Own:
		doubt = &policy.Obstacle{Kind: policy.ObstaclePermission,
			Message: fmt.Sprintf("you may not impersonate service account %s: whether it may delete this is not known", account.Name)}
		if len(result.Lacks) > 0 {
			r.unknown = append(r.unknown, p.ID()+": you may not "+result.Lacks[0])
		}
	}
	if slices.ContainsFunc(result.Skipped, func(skipped v1alpha1.SkipCount) bool { return skipped.Reason == cleanup.SkipLimit }) {
		doubt = limited
	}
	return result, doubt, nil
}

// limited is the doubt about each object of a policy with a limit.
var limited = &policy.Obstacle{Kind: policy.ObstacleLimit, Message: "maxDeletions or maxPercentage of the policy may keep it"}

// doubtOf is why it is not known whether a run deletes an object; nil if it is.
func doubtOf(object *preview.Object, ofRun *policy.Obstacle, later bool) *policy.Obstacle {
	switch {
	case object.Reason == "":
		return ofRun
	case object.Reason == cleanup.SkipLimit, object.Reason == cleanup.SkipConsecutive && later:
		return &policy.Obstacle{Kind: policy.ObstacleLimit, Message: object.Message}
	case object.Reason == cleanup.SkipLookup && ofRun != nil:
		return &policy.Obstacle{Kind: policy.ObstaclePermission, Message: object.Message}
	}
	return nil
}

// note keeps one note about the policies whose runs delete nothing, and one about those that cannot
// be evaluated.
func (r *runs) note(unread []string) {
	if len(unread) > 0 {
		r.w.Note(unreadText(unread))
	}
	if len(r.unknown) > 0 {
		slices.Sort(r.unknown)
		r.w.Note("not known what a run deletes: " + some(slices.Compact(r.unknown)))
	}
	if len(r.idle) > 0 {
		slices.Sort(r.idle)
		r.w.Note("these cleanup policies delete nothing as they are: " + some(slices.Compact(r.idle)))
	}
}

func unreadText(unread []string) string {
	return "you may not list " + strings.Join(unread, " and ") + ": what these delete is not known"
}
