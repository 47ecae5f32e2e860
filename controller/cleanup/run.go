package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

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
	ledger   *ledger
	log      logr.Logger
	info     v1alpha1.CleanupRun // as it began
	survey   *survey.Survey
	pages    int32 // written so far

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
	// opened: lacks says what the account may not do where the policy matches.
	opened bool
	lacks  string
	// resumed: the run was interrupted and is continued. ending: it deletes no more, and only finds
	// out which objects it has deleted.
	resumed, ending bool

	mu    sync.Mutex
	kinds map[schema.GroupVersionResource]engine.Kind
	// failing are resources of objects that were given up on, until a page deletes one of their
	// objects.
	failing map[schema.GroupResource]bool
	// postponed are objects that a pause holds, and moreHeld says that there are others.
	postponed []v1alpha1.CleanupItem
	moreHeld  bool
	// chosen are objects to be deleted that are in no batch yet. Only the survey uses them.
	chosen  []v1alpha1.CleanupItem
	batches *batches
	// confirmed is when the last confirm began that succeeded; confirming guards it.
	confirmed  time.Time
	confirming sync.Mutex
}

func (c *Controller) newRun(cur *current, info *v1alpha1.CleanupRun) (*run, error) {
	account, err := c.options.Account(cur.policy.Account)
	if err != nil {
		return nil, err
	}
	r := &run{
		c: c, cur: cur, policy: cur.policy, account: account, ledger: cur.ledger, info: *info,
		log:   c.log.WithValues("policy", cur.policy.ID(), "run", info.ID),
		kinds: map[schema.GroupVersionResource]engine.Kind{}, failing: map[schema.GroupResource]bool{},
	}
	r.newSurvey(0)
	return r, nil
}

func (r *run) newSurvey(limit int) {
	options := &r.c.options
	clients := survey.Clients{Objects: r.account.Objects, Metadata: r.account.Metadata}
	r.survey = survey.New(r.policy, reader{clients, r.account}, survey.Options{
		Account: r.account.Name.String(), Served: options.Served, Source: options.Cached, Namespaces: options.Namespaces,
		Protect: options.Protect, Matched: r.matched, MaxLacks: limit, Now: r.cur.now, Clock: options.Clock, Yield: r.yield, Paged: func(context.Context) error { return r.submit(batchSize) }, Wait: r.away,
	})
}

// start begins a new run and carries it out.
func (r *run) start(ctx context.Context) error {
	approved, err := r.approved(ctx)
	if err != nil {
		return err
	}
	r.info.DryRun = r.info.DryRun || !approved
	err = r.ledger.begin(ctx, r.info.DeepCopy(), func(s *v1alpha1.CleanupPolicyStatus) {
		message := fmt.Sprintf("status.lastRun was removed before its objects were counted: up to %d deletions are in no count", s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonReportLost, message)
	})
	if err != nil {
		return err
	}
	return r.carryOut(ctx)
}

// resume continues a run that was interrupted. It counts the announced objects that are gone, and
// lists, judges and announces the rest again.
func (r *run) resume(ctx context.Context) error {
	r.resumed = true
	r.forbidden = meta.IsStatusConditionFalse(r.ledger.status().Conditions, v1alpha1.ConditionPermissionsGranted)
	if r.forbidden { // It waits while anything is missing, and need not ask for everything each time.
		r.newSurvey(maxLacks)
	}
	if err := r.settle(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.carryOut(ctx)
}

func (r *run) carryOut(ctx context.Context) error {
	defer func() {
		r.forgetKinds()
		r.remembers.end()
	}()
	r.epoch, r.until = r.c.options.Engine.Epoch(), r.cur.turn.total()+runTime
	uid, err := r.account.Exists(ctx)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	r.accountUID = uid
	approved, err := r.approved(ctx)
	if err != nil {
		return err
	}
	r.info.DryRun = r.policy.Spec.DryRun || r.c.options.DryRun || !approved // The status does not decide.
	// A new run counts as well: a status that was set back may have it run again.
	deleted, err := r.recount(ctx)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	lacks, err := r.survey.Open(ctx)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	r.opened, r.lacks = true, r.mayNot(lacks)
	if len(lacks) > 0 && (r.forbidden || r.survey.Nowhere()) {
		// It was begun with this permission, or can do nothing at all, and waits for it.
		return r.interrupted(ctx, fmt.Errorf("%s: %w", r.mayNot(lacks), errForbidden))
	}
	if err = r.firstPass(ctx, deleted); err == nil {
		err = r.deleteAll(ctx)
	}
	stalled, unlisted := (*survey.StallError)(nil), r.survey.Unlisted()
	switch {
	case errors.Is(err, errMoreHeld):
		return r.again(ctx)
	case errors.As(err, &stalled):
		return r.end(ctx, v1alpha1.RunStalled, stalled.Reason, stalled.Error())
	case errors.Is(err, errTimeUp):
		return r.end(ctx, v1alpha1.RunFailed, v1alpha1.ReasonTimeLimit, errTimeUp.Error())
	case err != nil:
		return r.interrupted(ctx, err)
	case len(lacks) > 0:
		return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonForbidden, strings.Join(append([]string{r.mayNot(lacks)}, unlisted...), "; "))
	case len(unlisted) > 0:
		return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonKindNotListed, "kept, because it could not be listed: "+strings.Join(unlisted, "; "))
	case !approved:
		return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonWaitingForApproval, r.waiting())
	}
	return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonComplete, "")
}

// firstPass counts what matches. A run that remembers many objects waits until few others do.
func (r *run) firstPass(ctx context.Context, deleted int64) error {
	if r.policy.Spec.KeepNewest != nil || r.policy.Consecutive() {
		err := r.cur.turn.away(ctx, func() (err error) {
			r.remembers, err = r.c.remembering.take(ctx, r.policy.Namespace)
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.survey.Count(ctx, deleted)
}

// deleteAll deletes in batches, two at a time, while it lists on. If the time is up it deletes what
// it has chosen.
func (r *run) deleteAll(ctx context.Context) error {
	r.batches = newBatches(ctx, r)
	err := r.survey.Choose(ctx, func(at *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict != cleanup.Delete {
			return nil
		}
		item := itemOf(at, object)
		if !r.info.DryRun && r.heldAlone(ctx, &item) {
			r.later(&item)
			return nil
		}
		r.chosen = append(r.chosen, item)
		return nil
	})
	timeUp := errors.Is(err, errTimeUp)
	if timeUp {
		err = nil
	}
	if err == nil {
		err = r.submit(1)
	}
	if err = errors.Join(err, r.batches.wait()); err == nil {
		err = r.deleteHeld(ctx)
	}
	if timeUp && (err == nil || errors.Is(err, errMoreHeld)) {
		err = errTimeUp
	}
	return err
}

// runTime is how long a run may list and judge. Waiting for a turn, for deletions or for a pause
// does not count.
const runTime = time.Hour

var errTimeUp = fmt.Errorf("the run listed and judged objects for %s, its limit, and keeps the rest. The next run begins again: match less, or use cheaper expressions", runTime)

// yield lets other runs work. It is an error if the time of the run is up.
func (r *run) yield(ctx context.Context, inPage bool) error {
	if r.until > 0 && r.cur.turn.total() >= r.until {
		return errTimeUp
	}
	return r.cur.turn.yield(ctx, inPage)
}

func itemOf(at *cleanup.Target, object *unstructured.Unstructured) v1alpha1.CleanupItem {
	return v1alpha1.CleanupItem{
		Group: at.Group, Version: at.Version, Kind: at.Kind, Resource: at.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}

// finish completes a run that was interrupted: the process was killed, or something failed. It
// deletes more only while the policy is unchanged and no newer run is due.
func (c *Controller) finish(ctx context.Context, cur *current, mayGoOn bool) error {
	status := cur.ledger.status()
	if status.LastRun == nil || status.LastRun.Phase != v1alpha1.RunRunning && len(status.UncountedDeletions) == 0 {
		return nil
	}
	r, err := c.newRun(cur, status.LastRun)
	if err != nil {
		return err
	}
	why := "the policy was changed or suspended, or its next run was due, before the run was complete"
	if mayGoOn && status.LastRun.Generation == cur.policy.Generation && status.LastRun.Phase == v1alpha1.RunRunning {
		switch {
		case cur.tooLate(status.LastRun.ScheduledTime.Time) && !c.stillPaused(ctx, cur.policy, status):
			why = "the run was interrupted until its startingDeadlineSeconds had passed"
		case !cur.hasBegun(status.LastRun):
			why = "status.lastRun does not name the last run of the schedule"
		default:
			return r.resume(ctx)
		}
	}
	r.ending = true
	if err := r.settle(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.end(ctx, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, why)
}

// hasBegun reports whether a run is the last one that the schedule has begun. Who may write the
// status could otherwise start runs at any time, each with the full limits of the policy. Such a
// user can still have the last run of the schedule carried out again: it deletes what the spec says
// now, by the clock of now, up to the limits of one run (see recount).
func (cur *current) hasBegun(run *v1alpha1.CleanupRun) bool {
	at, schedule := run.ScheduledTime.Time, cur.policy.Schedule
	return run.ID == runID(at, cur.policy.UID) && !cur.ahead(at) &&
		schedule.Next(at.Add(-time.Second)).Equal(at) && schedule.Next(at).After(cur.now)
}

// maxPages and maxCounted bound what a status says of a run, far above what one can do.
const maxPages, maxCounted = 10_000_000, 1 << 40

// recount returns how many objects the run has deleted, or may have, by its pages or the status,
// whichever says more. It finds the number of its next page.
func (r *run) recount(ctx context.Context) (deleted int64, err error) {
	counted, last, err := r.ledger.store.counted(ctx, r.info.ID)
	if err != nil {
		return 0, err
	}
	run := r.ledger.status().LastRun
	if r.pages = max(run.Pages, last); r.pages > maxPages {
		r.pages = last
	}
	return min(max(run.Deleted, counted), maxCounted) + min(max(0, run.Lost), maxCounted), nil
}

// matchesPerPage is how many matches a report page has at most: they take 300 kB. Tests make it
// smaller.
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
		fields, err := r.ledger.store.readPage(ctx, matchesName(r.policy.Name, left.Run, number))
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
	text := r.survey.Matches.Encode()
	out := &v1alpha1.CleanupMatches{
		Run: r.info.ID, ScheduledTime: r.info.ScheduledTime, SpecHash: r.policy.Hash, SHA256: cleanup.SumMatches(text),
	}
	for page := range slices.Chunk(text, matchesPerPage*cleanup.MatchSize) {
		out.Pages++
		fields := &v1alpha1.CleanupReportFields{
			Policy: v1alpha1.PolicyReference{Name: r.policy.Name, UID: r.policy.UID}, Run: r.info.ID, Page: out.Pages, Matched: page,
		}
		if err := r.ledger.store.writePage(ctx, matchesName(r.policy.Name, r.info.ID, out.Pages), fields, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func matchesName(policy, run string, number int32) string {
	return pageName(policy, "matched-"+run, number)
}
