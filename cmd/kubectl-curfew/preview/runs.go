package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// maxRuns bounds how many cleanup policies one command evaluates: each lists what it matches.
const maxRuns = 50

// Runs evaluates the next runs of cleanup policies.
type Runs struct {
	W *world.World
	// Only is the part of the cluster that is asked about.
	Only survey.Only
	Now  time.Time
	// Within returns the runs of a policy that are evaluated, in order.
	Within func(*world.CleanupPolicy, *cleanup.Policy) []time.Time
	// Unapproved also evaluates policies that wait for their approval, which blocks their runs.
	Unapproved bool
	// Idle are policies whose runs delete nothing, and unknown those that cannot be evaluated, each
	// with the reason.
	Idle, unknown []string
	// failed: the API server failed to answer, so that unknown may be known later.
	Failed bool
}

// Due are the policies that have a run in the window and may delete objects in it, by time.
func (r *Runs) Due(ctx context.Context, all []*world.CleanupPolicy) ([]*dueRun, error) {
	served, err := r.W.Resources(ctx)
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
		run := &dueRun{stored: stored, Policy: p, at: r.Within(stored, p)}
		if len(run.at) == 0 || !slices.ContainsFunc(p.Targets(served), r.concerns) {
			continue
		}
		why, err := run.idle(ctx, r.W)
		if err != nil {
			return nil, err
		}
		if run.waits = why == notApproved && r.Unapproved; why != "" && !run.waits {
			r.Idle = append(r.Idle, p.ID()+" ("+why+")")
			continue
		}
		out = append(out, run)
	}
	slices.SortStableFunc(out, func(a, b *dueRun) int { return a.at[0].Compare(b.at[0]) })
	if more := len(out) - maxRuns; more > 0 {
		out = out[:maxRuns]
		r.unknown = append(r.unknown, console.Count(more, "more cleanup policy", "more cleanup policies")+
			": not evaluated: name a namespace or a shorter time")
	}
	return out, nil
}

func (r *Runs) concerns(target cleanup.Target) bool {
	return (r.Only.Resource == nil || r.Only.Resource(target.GroupResource())) && (r.Only.Namespace == "" || target.Namespaced)
}

// Found passes the entries of the objects that a run matches to take, and whether the run keeps
// them. Those that a later run of the window deletes have its time as the latest one.
func (r *Runs) Found(ctx context.Context, due *dueRun, take func(entry *world.Entry, kept bool)) error {
	seen := map[string]bool{}
	for i, t := range due.at {
		later := i > 0
		between := later && due.Policy.Schedule.Next(due.at[i-1]).Before(t) // A run that is not evaluated.
		start := t
		if start.Before(r.Now) { // It is late, and starts now.
			start = r.Now
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
				Trigger: policy.TriggerCleanup, Source: due.source(), Expiry: t, Estimated: between,
			}
			if object.Reason == cleanup.SkipUnused {
				entry.Expiry, entry.Estimated = object.Until, false
			}
			if unsure != nil {
				entry.Uncertain, entry.Obstacles = true, []judging.Obstacle{*unsure}
			}
			switch {
			case due.waits && !kept:
				entry.Obstacles = append(entry.Obstacles, judging.Obstacle{Kind: judging.ObstacleLimit, Stops: true,
					Message: "the policy waits for its approval"})
			case kept:
				entry.Obstacles = []judging.Obstacle{{Kind: judging.ObstacleLimit, Message: object.Message, Stops: true}}
			default:
				r.W.BlockRun(entry)
			}
			take(entry, kept)
		}
	}
	return nil
}

// evaluate previews a run; result is nil if it deletes nothing, or cannot be evaluated.
func (r *Runs) evaluate(ctx context.Context, due *dueRun, t time.Time) (result *Result, doubt *judging.Obstacle, err error) {
	p, doubt := due.Policy, due.doubt
	if part := r.Only.Resource != nil || r.Only.Namespace != "" && p.Namespace == ""; part && p.Limited() {
		doubt = limited
		unlimited, spec := *p, *p.Spec
		spec.MaxDeletions, spec.MaxPercentage = nil, nil
		unlimited.Spec = &spec
		p = &unlimited
	}
	account, err := r.W.AccountOf(ctx, p.Account, r.W.Controller.Namespace)
	if err == nil {
		result, err = previewRun(ctx, r.W, account, due.stored, p, r.Only, t)
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		r.Failed = r.Failed || session.Failure(err)
		r.unknown = append(r.unknown, p.ID()+": "+console.OneLine(err.Error()))
		return nil, nil, nil
	case result.Stalled != nil:
		r.Idle = append(r.Idle, p.ID()+" ("+result.Stalled.Reason+")")
		return nil, nil, nil
	case account.Own:
		doubt = &judging.Obstacle{Kind: judging.ObstaclePermission,
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
var limited = &judging.Obstacle{Kind: judging.ObstacleLimit, Message: "maxDeletions or maxPercentage of the policy may keep it"}

// doubtOf is why it is not known whether a run deletes an object; nil if it is.
func doubtOf(object *Object, ofRun *judging.Obstacle, later bool) *judging.Obstacle {
	switch {
	case object.Reason == "":
		return ofRun
	case object.Reason == cleanup.SkipUnused:
		return &judging.Obstacle{Kind: judging.ObstacleLimit, Message: object.Message}
	case object.Reason == cleanup.SkipLimit, object.Reason == cleanup.SkipConsecutive && later:
		return &judging.Obstacle{Kind: judging.ObstacleLimit, Message: object.Message}
	case object.Reason == cleanup.SkipLookup && ofRun != nil:
		return &judging.Obstacle{Kind: judging.ObstaclePermission, Message: object.Message}
	}
	return nil
}

// Note keeps one note about the policies whose runs delete nothing, and one about those that cannot
// be evaluated.
func (r *Runs) Note(unread []string) {
	if len(unread) > 0 {
		r.W.Note(unreadText(unread))
	}
	if len(r.unknown) > 0 {
		slices.Sort(r.unknown)
		r.W.Note("not known what a run deletes: " + session.Some(slices.Compact(r.unknown)))
	}
	if len(r.Idle) > 0 {
		slices.Sort(r.Idle)
		r.W.Note("these cleanup policies delete nothing as they are: " + session.Some(slices.Compact(r.Idle)))
	}
}

func unreadText(unread []string) string {
	return "you may not list " + strings.Join(unread, " and ") + ": what these delete is not known"
}

// dueRun is a cleanup policy with the runs to evaluate.
type dueRun struct {
	stored *world.CleanupPolicy
	Policy *cleanup.Policy
	at     []time.Time
	// doubt is why the command cannot know which objects the run deletes; nil for none.
	doubt *judging.Obstacle
	// waits means that the policy has no approval.
	waits bool
}

const notApproved = "not approved"

func (d *dueRun) source() lifetime.Source {
	const level = string(policy.TriggerCleanup)
	return lifetime.Source{Level: lifetime.Level(level), Name: strings.TrimPrefix(d.Policy.ID(), level+"/")}
}

// idle is why the policy deletes nothing; "" if it may.
func (d *dueRun) idle(ctx context.Context, w *world.World) (why string, err error) {
	switch {
	case d.Policy.Spec.Suspend:
		return "suspended", nil
	case d.Policy.Spec.DryRun:
		return "dry run", nil
	}
	if why := d.reported(v1alpha1.ConditionReady); why != "" {
		return why, nil
	}
	if lacks := d.reported(v1alpha1.ConditionPermissionsGranted); lacks != "" {
		d.doubt = &judging.Obstacle{Kind: judging.ObstaclePermission, Message: "the policy's service account lacks permissions: " + lacks}
	}
	if !d.Policy.NeedsApproval(w.Controller.Published["require-approval"] == "true") {
		return "", nil
	}
	approved, known, err := w.Approved(ctx, d.Policy, &d.stored.Status)
	switch {
	case !known:
		d.doubt = &judging.Obstacle{Kind: judging.ObstaclePermission,
			Message: "you may not list approvals: whether the policy has one is not known"}
	case !approved:
		why = notApproved
	}
	return why, err
}

// Overdue is when a run was due that goes on, or starts as soon as the controller runs: the
// controller makes up for the last run that it missed, within startingDeadlineSeconds. It is zero
// for none. A forged status shows a wrong row here, and changes no run.
func Overdue(stored *world.CleanupPolicy, p *cleanup.Policy, now time.Time) time.Time {
	status := &stored.Status
	var t time.Time
	if announced := status.NextScheduleTime; announced != nil && !announced.After(now) {
		before := announced.Add(-time.Second)
		if status.ObservedGeneration == stored.Generation || p.Schedule.Next(before).Equal(announced.Time) {
			t, _ = p.Schedule.Latest(before, now)
		}
	}
	last := status.LastRun
	running := last != nil && last.Phase == v1alpha1.RunRunning && !last.DryRun
	if t.IsZero() && running && !last.ScheduledTime.After(now) {
		t = last.ScheduledTime.In(p.Schedule.Location())
	}
	if deadline := p.Spec.StartingDeadlineSeconds; deadline != nil && int64(now.Sub(t)/time.Second) > *deadline {
		return time.Time{}
	}
	return t
}

// reported is the message of a condition that is False for the present spec; "" otherwise. Only
// Curfew writes it; a forged one adds or removes a "?" here, and changes no run.
func (d *dueRun) reported(kind string) string {
	found := report.Condition(d.stored, kind)
	if found == nil || found.Status != metav1.ConditionFalse || d.stored.Status.ObservedGeneration != d.stored.Generation {
		return ""
	}
	return cmp.Or(console.OneLine(found.Message), found.Reason)
}
