package cleanup

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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// serve works for the policies in the queue.
func (c *Controller) serve(ctx context.Context) {
	var all sync.WaitGroup
	for {
		key, ok := c.queue.Next(ctx)
		if !ok {
			break
		}
		if !c.queue.Begin(key) {
			continue
		}
		all.Go(func() {
			defer c.queue.End(key)
			c.work(ctx, key)
		})
	}
	all.Wait()
}

// work does what a policy needs now, once it is its turn, and has it looked at again.
func (c *Controller) work(ctx context.Context, key string) {
	turn, err := c.turns.take(ctx, namespaceOf(key))
	if err != nil {
		return
	}
	defer turn.end()
	again, err := c.step(ctx, key, turn)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errGone) && !c.known(key):
		c.queue.Done(key) // Remove would drop a policy of that name that is created now.
	case err != nil:
		c.log.Info("a cleanup policy could not be run, trying again", "policy", key, "reason", err.Error())
		most := cmp.Or(again, retrySoon) // No failure delays the next run.
		if isForbidden(err) {
			most = min(most, retrySoon)
		}
		c.queue.RetryWithin(key, retryFirst, most)
	default:
		c.queue.Done(key)
		c.queue.AddAfter(key, again)
	}
}

// read reads a policy live. The error is errGone if it does not exist.
func (c *Controller) read(ctx context.Context, key string) (*unstructured.Unstructured, error) {
	resource, name, _ := strings.Cut(key, "/")
	client := dynamic.ResourceInterface(c.options.Objects.Resource(v1alpha1.GroupVersion.WithResource(resource)))
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		client, name = c.options.Objects.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(namespace), rest
	}
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading policy %s: %w", key, err)
	}
	if object.GetDeletionTimestamp() != nil {
		return nil, errGone
	}
	return object, nil
}

// step does what a policy needs now, and returns after how long it needs something again: 0 if that
// is not known because of an error.
func (c *Controller) step(ctx context.Context, key string, turn *turn) (time.Duration, error) {
	object, err := c.read(ctx, key)
	if err != nil {
		return 0, err
	}
	now, err := c.options.ServerTime(ctx)
	if err != nil {
		return 0, err
	}
	began := c.options.Clock.Now()
	p, errs, status := cleanup.Read(c.compiler, object)
	store := newStore(c.options.Clock, c.options.Objects, p, object.GetResourceVersion(), status)
	store.reportBytes = c.options.ReportBytes
	cur := &current{object: object, policy: p, now: now, turn: turn, ledger: &ledger{store: store}}
	cur.requires = requirement.Record(cleanup.KindOf(object), object.Object)
	limits, err := c.limit(p)
	if err != nil {
		return 0, err
	}
	errs = append(errs, limits...)
	ran, next, err := c.advance(ctx, cur, errs)
	again := func() time.Duration {
		if next.IsZero() {
			return permissionsEvery
		}
		return min(permissionsEvery, max(next.Sub(now)-c.options.Clock.Since(began), time.Second))
	}
	if err == nil && ran {
		return time.Second, nil // Then the next run is looked for.
	}
	if err == nil && len(errs) == 0 {
		err = c.review(ctx, cur, again())
	}
	return again(), err
}

// advance brings the last run to its end and starts the one that is due. It reports whether it has
// started one, and when the next is due.
func (c *Controller) advance(ctx context.Context, cur *current, errs field.ErrorList) (ran bool, next time.Time, err error) {
	usable, due := len(errs) == 0 && !cur.policy.Spec.Suspend, time.Time{}
	if usable {
		due, next = cur.due()
	}
	if err := cur.observe(ctx, errs, next); err != nil {
		return false, next, err
	}
	if cur.held != "" {
		c.event(cur.object, true, v1alpha1.ReasonNeedsNewerVersion, cur.held)
	}
	if err := c.finish(ctx, cur, usable && due.IsZero()); err != nil || due.IsZero() {
		return false, next, err
	}
	return true, next, c.start(ctx, cur, due)
}

// start starts a run that is due.
func (c *Controller) start(ctx context.Context, cur *current, due time.Time) error {
	r, err := c.newRun(cur, &v1alpha1.CleanupRun{
		ID: runID(due, cur.policy.UID), Phase: v1alpha1.RunRunning, Generation: cur.policy.Generation,
		ScheduledTime: metav1.NewTime(due), StartTime: metav1.NewTime(cur.now), DryRun: cur.policy.Spec.DryRun || c.options.DryRun,
		IgnoredKinds: cur.policy.Ignored(),
	})
	if err != nil {
		return err
	}
	return r.start(ctx)
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

func (r *run) carryOut(ctx context.Context) error {
	defer func() {
		r.renewing.Wait()
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
		message := "kept, because it could not be listed: " + strings.Join(unlisted, "; ")
		return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonKindNotListed, message)
	case !approved:
		return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonWaitingForApproval, r.waiting())
	}
	return r.end(ctx, v1alpha1.RunCompleted, complete, "")
}

// firstPass counts what matches. A run that remembers many objects waits until few others do.
func (r *run) firstPass(ctx context.Context, deleted int64) error {
	if r.policy.Spec.KeepNewest != nil || r.policy.Remembers() {
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
	err := r.survey.Choose(ctx, func(target *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if !r.unused.add(object, decision) {
			r.survey.Matches.Forget(object.GetUID()) // Its time begins when an Event announces it.
		}
		if decision.Verdict != cleanup.Delete {
			return nil
		}
		item := itemOf(target, object)
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

// interrupted ends the attempt, not the run: the run is resumed after a while, at its next step.
func (r *run) interrupted(ctx context.Context, err error) error {
	reason := v1alpha1.ReasonRunFailed
	if errors.Is(err, errForbidden) || isForbidden(err) {
		reason = v1alpha1.ReasonForbidden
	}
	if ctx.Err() != nil || errors.Is(err, errOvertaken) || errors.Is(err, errGone) {
		return err
	}
	if reason == v1alpha1.ReasonRunFailed && r.c.stillPaused(ctx, r.policy, r.ledger.status()) {
		reason = paused(r.ledger.status())
	}
	written := r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		r.stalled(s, reason, "the run was interrupted and will go on: "+err.Error())
		switch { // A resumed run waits for a permission that it lost, not for those that it never had.
		case reason == v1alpha1.ReasonForbidden:
			r.cur.permitted(s, err.Error())
		case r.opened && r.lacks == "":
			r.cur.permitted(s, "")
		}
	})
	return errors.Join(err, written)
}

// end ends the run. It writes the matches on their pages before the status names these pages.
func (r *run) end(ctx context.Context, phase v1alpha1.RunPhase, reason, message string) error {
	matches, err := r.writeMatches(ctx)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	now, err := r.c.options.ServerTime(ctx)
	if err != nil {
		now = r.cur.now
	}
	r.announceUnused() // No time passes that was not announced.
	err = r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		run := s.LastRun
		run.Phase, run.CompletionTime = phase, new(metav1.NewTime(now))
		run.Listed, run.Matched = max(run.Listed, r.survey.Listed), max(r.survey.Matched, run.Deleted)
		run.DryRun = r.info.DryRun && run.Deleted+run.Lost == 0
		run.Skipped, s.Matches = nil, matches
		for _, count := range r.survey.Skipped {
			run.Skipped = append(run.Skipped, *count)
		}
		slices.SortFunc(run.Skipped, func(a, b v1alpha1.SkipCount) int { return strings.Compare(a.Reason, b.Reason) })
		r.stalled(s, reason, message)
		if r.opened {
			r.cur.permitted(s, r.lacks)
		}
	})
	if err != nil {
		return err
	}
	r.report(phase, reason, message)
	return r.ledger.prune(ctx, r.info.ID, now)
}

// report tells people how the run ended: one log line, one Event.
func (r *run) report(phase v1alpha1.RunPhase, reason, message string) {
	status := r.ledger.status().LastRun
	text := fmt.Sprintf("deleted %d of %d objects", status.Deleted, status.Listed)
	switch {
	case status.DryRun:
		text = fmt.Sprintf("would delete %d of %d objects", status.Matched, status.Listed)
	case r.info.DryRun: // Since its approval was deleted.
		text += fmt.Sprintf(", and would delete %d more", r.survey.Matched)
	}
	if message != "" {
		text += ": " + message
	}
	r.c.metrics.runs.WithLabelValues(string(phase)).Inc()
	r.log.Info("a cleanup run has ended", "phase", phase, "deleted", status.Deleted, "matched", status.Matched,
		"listed", status.Listed, "dryRun", status.DryRun, "reason", reason)
	r.c.event(r.cur.object, reason != complete, "Cleanup"+string(phase), text)
}

// announceUnused writes one Event in each namespace, on the object that is deleted first, so that
// an owner can object. A run that lacks an approval, or a controller with --dry-run, announces as
// well: its time counts. To remove dryRun from a policy starts the time again.
func (r *run) announceUnused() {
	if r.policy.Spec.DryRun {
		return
	}
	for _, namespace := range slices.Sorted(maps.Keys(r.unused)) {
		unusedIn := r.unused[namespace]
		const message = "unused objects: %d, first deletion at about %s, by %s: use them, or set annotation %s"
		r.c.event(unusedIn.first, false, ReasonUnused, fmt.Sprintf(message,
			unusedIn.count, unusedIn.until.UTC().Format(time.RFC3339), r.policy.ID(), wellknown.AnnotationProtect))
	}
}
