package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/v1alpha1"
)

// current is a policy as it was just read.
type current struct {
	object *unstructured.Unstructured
	policy *cleanup.Policy
	ledger *ledger
	now    time.Time
	// requires is the record for older versions of Curfew that has to be written; else nil.
	requires *metav1.Condition
	// held is why the policy has begun to need a newer Curfew; else "".
	held string
	// turn to work at it.
	turn *turn
}

// due returns the scheduled time of a run that should start now, and when the next one is due.
func (cur *current) due() (due, next time.Time) {
	status := cur.ledger.status()
	after := cur.since(status)
	if cur.changed(status) {
		if since := cur.changedAt(status); since.After(after) {
			after = since
		}
	}
	if last := status.LastScheduleTime; last != nil && last.After(after) && !cur.ahead(last.Time) {
		after = last.Time
	}
	if after.After(cur.now) {
		after = cur.now
	}
	due, _ = cur.policy.Schedule.Latest(after, cur.now)
	if !due.IsZero() && cur.tooLate(due) {
		due = time.Time{}
	}
	return due, cur.policy.Schedule.Next(cur.now)
}

// since is the time from which runs are due: when the policy was created, or last changed.
func (cur *current) since(status *v1alpha1.CleanupPolicyStatus) time.Time {
	since := cur.object.GetCreationTimestamp().Time
	if t := status.ScheduleSinceTime; t != nil && (t.After(since) || cur.ahead(since)) {
		since = t.Time
	}
	return since
}

// ahead reports whether a time that was written down is in the future: the clock was wrong then. It
// must not stop the policy until the time has come. Two API servers may differ by a little.
func (cur *current) ahead(t time.Time) bool { return t.After(cur.now.Add(maxClockSkew)) }

// changed reports whether the policy was edited since its status was written.
func (cur *current) changed(status *v1alpha1.CleanupPolicyStatus) bool {
	return status.ObservedGeneration != 0 && status.ObservedGeneration != cur.policy.Generation
}

// changedAt is the time from which an edited policy is due. A new schedule makes up for nothing.
// But an edit does not cancel the run that the status announces if the new schedule has it, too: it
// is not known which came first. Only Curfew writes that status; forged, it starts a run of the
// policy's own schedule.
func (cur *current) changedAt(status *v1alpha1.CleanupPolicyStatus) time.Time {
	if announced := status.NextScheduleTime; announced != nil && !announced.After(cur.now) {
		if before := announced.Add(-time.Second); cur.policy.Schedule.Next(before).Equal(announced.Time) {
			return before
		}
	}
	return cur.now
}

// tooLate reports whether a run that was due at a time may not begin, or go on, any more.
func (cur *current) tooLate(due time.Time) bool {
	deadline := cur.policy.Spec.StartingDeadlineSeconds
	return deadline != nil && int64(cur.now.Sub(due)/time.Second) > *deadline
}

// hasBegun reports whether a run is the last one that the schedule has begun. Who may write the
// status could otherwise start runs at any time, each with the full limits of the policy. Such a
// user can still have the last run of the schedule carried out again: it deletes what the spec says
// now, by the clock of now, up to the limits of one run (see recount).
func (cur *current) hasBegun(run *v1alpha1.CleanupRun) bool {
	t, schedule := run.ScheduledTime.Time, cur.policy.Schedule
	return run.ID == runID(t, cur.policy.UID) && !cur.ahead(t) &&
		schedule.Next(t.Add(-time.Second)).Equal(t) && schedule.Next(t).After(cur.now)
}

// observe writes what can be said of a policy without a run.
func (cur *current) observe(ctx context.Context, errs field.ErrorList, next time.Time) error {
	before := cur.ledger.status()
	after := before.DeepCopy()
	after.NextScheduleTime = nil
	if changed := cur.changed(before); changed || cur.ahead(cur.since(before)) {
		since := metav1.NewTime(cur.now)
		if changed && len(errs) == 0 {
			since.Time = cur.changedAt(before)
		}
		after.ScheduleSinceTime = &since
	}
	cur.observeSpec(after)
	after.ObservedGeneration = cur.policy.Generation
	if !next.IsZero() {
		after.NextScheduleTime = new(metav1.NewTime(next))
	}
	ready := expression.Ready(cur.policy.Generation, errs, nil)
	ready.LastTransitionTime = metav1.NewTime(cur.now)
	if meta.SetStatusCondition((*[]metav1.Condition)(&after.Conditions), ready) && ready.Reason == v1alpha1.ReasonNeedsNewerVersion {
		cur.held = quote.ShortenTo(ready.Message, 1000) // Events have shorter messages than conditions.
	}
	if record := cur.requires; record != nil {
		record.LastTransitionTime = ready.LastTransitionTime
		meta.SetStatusCondition((*[]metav1.Condition)(&after.Conditions), *record)
	}
	if equalStatus(before, after) {
		return nil
	}
	return cur.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { *s = *after })
}

// observeSpec writes which spec the policy has, and after which time it must be approved. An approval
// may be created before the edit that it is for, but not before the spec that the edit replaced. If
// a generation was missed, the policy may have had any spec.
func (cur *current) observeSpec(s *v1alpha1.CleanupPolicyStatus) {
	now := metav1.NewTime(cur.now)
	switch missed := cur.policy.Generation - s.ObservedGeneration; {
	case s.ObservedGeneration == 0 || missed == 0 && s.SpecHash == cur.policy.Hash:
	case missed != 1 && missed != 0:
		s.SpecSinceTime, s.ApprovalsAfterTime = &now, &now
	case s.SpecHash != cur.policy.Hash:
		s.SpecSinceTime, s.ApprovalsAfterTime = &now, s.SpecSinceTime
	}
	if t := s.ApprovalsAfterTime; t != nil && cur.ahead(t.Time) {
		s.ApprovalsAfterTime = &now
	}
	s.SpecHash = cur.policy.Hash
}

// permitted sets PermissionsGranted; lacks names the missing permissions.
func (cur *current) permitted(s *v1alpha1.CleanupPolicyStatus, lacks string) {
	if lacks == "" {
		cur.set(s, v1alpha1.ConditionPermissionsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted, "")
		return
	}
	cur.set(s, v1alpha1.ConditionPermissionsGranted, metav1.ConditionFalse, v1alpha1.ReasonForbidden, lacks)
}

func (cur *current) set(s *v1alpha1.CleanupPolicyStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition((*[]metav1.Condition)(&s.Conditions), metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: quote.ShortenTo(message, 1024), ObservedGeneration: cur.policy.Generation,
		LastTransitionTime: metav1.NewTime(cur.now),
	})
}

// run is one run of a policy: a survey, and the deletion of the objects that it finds.
type run struct {
	c       *Controller
	cur     *current
	policy  *cleanup.Policy
	account *Account
	// accountUID is the UID of the account when the run began, or was resumed.
	accountUID types.UID
	// approval is the name of the one that was found; confirming guards it during batches.
	approval string
	// approvalsAfter is the time after which approvals must be created; nil if all count.
	approvalsAfter *metav1.Time
	ledger         *ledger
	log            logr.Logger
	info           v1alpha1.CleanupRun // as it began
	survey         *survey.Survey

	// remembers is the turn of a run that keeps much in memory.
	remembers *turn
	// until is how long the turns of its policy may last together.
	until time.Duration
	// epoch of the engine before the objects were listed.
	epoch uint64
	// late: the matches of the run do not count for the next one.
	late bool
	// forbidden: the run was interrupted because its account lost a permission.
	forbidden bool
	// gone are the objects that the pages of the run call deleted, before it began or was resumed.
	gone map[types.UID]bool
	// unused are the objects that minUnused keeps. Only the survey uses them.
	unused unused
	// opened: lacks says what the account may not do where the policy matches.
	opened bool
	lacks  string
	// resumed: the run was interrupted and is continued. ending: it deletes no more, and only finds
	// out which objects it has deleted.
	resumed, ending bool

	mu    sync.Mutex
	pages int32 // written so far
	kinds map[schema.GroupVersionResource]expire.Kind
	// failing are resources of objects that were given up on, until a page deletes one of their
	// objects.
	failing map[schema.GroupResource]bool
	// postponed are objects that a pause holds, and moreHeld says that there are others.
	postponed []v1alpha1.CleanupItem
	moreHeld  bool
	// chosen are objects to be deleted that are in no batch yet. Only the survey uses them.
	chosen  []v1alpha1.CleanupItem
	batches *batches
	// confirmed is when the last confirm began, if it succeeded.
	confirmed  time.Time
	confirming chan struct{} // has room for one confirm
	renewing   sync.WaitGroup
}

func (c *Controller) newRun(cur *current, info *v1alpha1.CleanupRun) (*run, error) {
	account, err := c.options.Account(cur.policy.Account)
	if err != nil {
		return nil, err
	}
	r := &run{
		c: c, cur: cur, policy: cur.policy, account: account, ledger: cur.ledger, info: *info,
		log:   c.log.WithValues("policy", cur.policy.ID(), "run", info.ID),
		kinds: map[schema.GroupVersionResource]expire.Kind{}, failing: map[schema.GroupResource]bool{},
		confirming: make(chan struct{}, 1), approvalsAfter: cur.ledger.status().ApprovalsAfterTime,
	}
	r.newSurvey(0)
	return r, nil
}

func (r *run) newSurvey(limit int) {
	options := &r.c.options
	clients := survey.Clients{Objects: r.account.Objects, Metadata: r.account.Metadata}
	r.survey = survey.New(r.policy, reader{clients, r.account}, survey.Options{
		Account: r.account.Name.String(), Served: options.Served, Discover: r.c.discover, Source: options.Cached,
		Namespaces: options.Namespaces, Protect: options.Protect, Matched: r.matched, MaxLacks: limit, Now: r.cur.now, Clock: options.Clock, Yield: r.yield,
		Paged: func(context.Context) error { return r.submit(batchSize) }, Wait: r.away,
	})
}

// runTime is how long a run may list and judge. Waiting for a turn, for deletions or for a pause
// does not count.
const runTime = time.Hour

var errTimeUp = fmt.Errorf("the run listed and judged objects for %s, its limit, and keeps the rest. "+
	"The next run begins again: match less, or use cheaper expressions", runTime)

// yield lets other runs work. It is an error if the time of the run is up.
func (r *run) yield(ctx context.Context, inPage bool) error {
	if r.until > 0 && r.cur.turn.total() >= r.until {
		return errTimeUp
	}
	return r.cur.turn.yield(ctx, inPage)
}

// away waits for a while, and lets other runs work.
func (r *run) away(ctx context.Context, d time.Duration) error {
	return r.cur.turn.away(ctx, func() error {
		if !loop.Pause(ctx, r.c.options.Clock, d) {
			return context.Cause(ctx)
		}
		return nil
	})
}

// complete is the reason of a run that deleted everything that it should.
const complete = "Complete"

// stalled sets Stalled, or removes it after a complete run, so that only stalled policies have it.
func (r *run) stalled(s *v1alpha1.CleanupPolicyStatus, reason, message string) {
	if reason == complete {
		meta.RemoveStatusCondition((*[]metav1.Condition)(&s.Conditions), v1alpha1.ConditionStalled)
		return
	}
	r.cur.set(s, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// objectOf is an item as the engine takes it.
func (r *run) objectOf(item *v1alpha1.CleanupItem) (expire.Entry, error) {
	gvr := schema.GroupVersionResource{Group: item.Group, Version: item.Version, Resource: item.Resource}
	kind, err := r.kind(gvr, item)
	return expire.Entry{
		Kind: kind, Namespace: item.Namespace, Name: item.Name, UID: item.UID, ResourceVersion: item.ResourceVersion,
		// The engine's clock may be behind that of the API server, by which the run is due.
		Expiry: r.info.ScheduledTime.Add(-maxClockSkew), Source: r.policy.ID(), Propagation: r.policy.Spec.PropagationPolicy,
		// Other objects decide a lookup, and they may have changed since the list.
		Live: len(r.policy.Expressions.Lookups) > 0, Epoch: r.epoch,
	}, err
}

// kind registers a kind with the engine, once in a run.
func (r *run) kind(gvr schema.GroupVersionResource, item *v1alpha1.CleanupItem) (expire.Kind, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.kinds[gvr]; ok {
		return known, nil
	}
	kind, err := r.c.options.Engine.RegisterKind(expire.KindOptions{
		Type: deletion.Type{
			Resource: gvr, Kind: item.Kind, Namespaced: item.Namespace != "", Protobuf: builtIn(gvr.GroupVersion().WithKind(item.Kind)),
			Aggregated: !builtIn(gvr.GroupVersion().WithKind(item.Kind)),
		},
		Trigger: string(policy.TriggerCleanup), Scope: r.policy.ID(),
		Judge: func(context.Context, expire.Entry) (expire.Judgement, error) {
			return expire.Judgement{}, errors.New("an object of a cleanup run is judged by the run: this is a bug")
		},
	})
	if err != nil {
		return 0, err
	}
	r.kinds[gvr] = kind
	return kind, nil
}

// forgetKinds lets the engine forget the kinds of the run.
func (r *run) forgetKinds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for gvr, kind := range r.kinds {
		r.c.options.Engine.ForgetKind(kind)
		delete(r.kinds, gvr)
	}
}

// builtIn reports whether the API server itself serves a kind.
func builtIn(kind schema.GroupVersionKind) bool { return scheme.Scheme.Recognizes(kind) }

// matchesPerPage is how many matches a report page has at most: they take 300 kB. With minUnused, a
// page of that size has fewer. Tests make it smaller.
var matchesPerPage = 25_000

// matched reads in how many runs in a row objects have matched before this one. A run that begins
// to read objects too late leaves no matches: the next one would find the same objects soon after.
func (r *run) matched(ctx context.Context) (cleanup.Matched, error) {
	now, err := r.c.options.ServerTime(ctx)
	if err != nil {
		return nil, err
	}
	due := r.info.ScheduledTime.Time
	r.late = now.Sub(due) > r.policy.Schedule.Next(due).Sub(due)/2
	left := r.ledger.status().Matches
	if left != nil && left.Run != runID(left.ScheduledTime.Time, r.policy.UID) {
		// Set back in a forged status, or else this run would count on from its own matches.
		return nil, nil
	}
	return r.policy.ReadMatched(left, due, func(number int32) ([]byte, error) {
		fields, _, err := r.ledger.store.readPage(ctx, matchesName(r.policy.Name, left.Run, number))
		if fields == nil || err != nil {
			return nil, err
		}
		return fields.Matched, nil
	})
}

// writeMatches writes the matches of this run on pages. The pages of the run before stay until the
// status names these: a run that is interrupted reads them again, and so counts nothing twice.
func (r *run) writeMatches(ctx context.Context) (*v1alpha1.CleanupMatches, error) {
	if r.survey.Matches == nil || r.late {
		return nil, nil
	}
	ended, err := r.c.options.ServerTime(ctx)
	if err != nil {
		return nil, err
	}
	text := r.survey.Matches.Encode(ended)
	out := &v1alpha1.CleanupMatches{
		Run: r.info.ID, ScheduledTime: r.info.ScheduledTime, SpecHash: r.policy.Hash, SHA256: cleanup.SumMatches(text),
	}
	for matched := range slices.Chunk(text, matchesPerPage*cleanup.MatchSize) {
		out.Pages++
		fields := v1alpha1.CleanupReportFields{
			Policy: v1alpha1.PolicyReference{Name: r.policy.Name, UID: r.policy.UID}, Run: r.info.ID, Page: out.Pages, Matched: matched,
		}
		if err := r.ledger.replace(ctx, &page{name: matchesName(r.policy.Name, r.info.ID, out.Pages), fields: fields}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
