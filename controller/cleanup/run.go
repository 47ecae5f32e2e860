package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// run is one run of a policy: a survey, and what it deletes.
type run struct {
	c       *Controller
	cur     *current
	policy  *cleanup.Policy
	account *Account
	ledger  *ledger
	log     logr.Logger
	info    v1alpha1.CleanupRun // as it began
	survey  *survey.Survey
	pages   int32 // written so far

	// remembers is the turn of a run that keeps much in memory.
	remembers *turn
	// epoch of the engine before the objects were listed.
	epoch uint64
	// late: the matches of the run do not count for the next one.
	late bool
	// forbidden: the run was interrupted because its account lost a permission.
	forbidden bool

	mu    sync.Mutex
	kinds map[schema.GroupVersionResource]engine.Kind
}

func (c *Controller) newRun(cur *current, info *v1alpha1.CleanupRun) (*run, error) {
	account, err := c.options.Account(cur.policy.Account)
	if err != nil {
		return nil, err
	}
	r := &run{
		c: c, cur: cur, policy: cur.policy, account: account, ledger: cur.ledger, info: *info,
		log:   c.log.WithValues("policy", cur.policy.ID(), "run", info.ID),
		kinds: map[schema.GroupVersionResource]engine.Kind{},
	}
	r.newSurvey(0)
	return r, nil
}

func (r *run) newSurvey(mostLacks int) {
	options := &r.c.options
	clients := survey.Clients{Objects: r.account.Objects, Metadata: r.account.Metadata}
	r.survey = survey.New(r.policy, reader{clients, r.account}, survey.Options{
		Account: r.account.Name.String(), Served: options.Served, Source: options.Cached, Namespaces: options.Namespaces,
		Protect: options.Protect, Matched: r.matched, MostLacks: mostLacks, Now: r.info.StartTime.Time, Clock: options.Clock, Between: r.cur.turn.yield,
	})
}

// start begins a new run and carries it out.
func (r *run) start(ctx context.Context) error {
	approved, err := r.c.approved(ctx, r.policy)
	if err != nil {
		return err
	}
	r.info.DryRun = r.info.DryRun || !approved
	if err := r.ledger.begin(ctx, r.info.DeepCopy()); err != nil {
		return err
	}
	return r.carryOut(ctx)
}

// resume goes on with a run that was interrupted. What it had announced is counted as far as it is
// gone; the rest is listed, judged and announced again.
func (r *run) resume(ctx context.Context) error {
	r.forbidden = meta.IsStatusConditionFalse(r.ledger.status().Conditions, v1alpha1.ConditionPermissionsGranted)
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
	r.epoch = r.c.options.Engine.Epoch()
	status := r.ledger.status()
	r.pages = status.LastRun.Pages
	approved, err := r.c.approved(ctx, r.policy)
	if err != nil {
		return err
	}
	r.info.DryRun = r.info.DryRun || !approved || r.c.options.DryRun
	lacks, err := r.survey.Open(ctx)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	if len(lacks) > 0 && (r.forbidden || r.survey.Nowhere()) {
		// It was begun with this permission, or can do nothing at all, and waits for it.
		return r.interrupted(ctx, fmt.Errorf("%s: %w", r.mayNot(lacks), errForbidden))
	}
	if err := r.firstPass(ctx, status.LastRun.Deleted+status.LastRun.Lost); err != nil {
		if stalled := (*survey.StallError)(nil); errors.As(err, &stalled) {
			return r.end(ctx, v1alpha1.RunStalled, stalled.Reason, stalled.Error())
		}
		return r.interrupted(ctx, err)
	}
	if err := r.deleteAll(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	switch {
	case len(lacks) > 0:
		return r.end(ctx, v1alpha1.RunCompleted, v1alpha1.ReasonForbidden, r.mayNot(lacks))
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

// deleteAll deletes in batches, two at a time, while it lists on.
func (r *run) deleteAll(ctx context.Context) error {
	batches := newBatches(ctx, r)
	var items []v1alpha1.CleanupItem
	err := r.survey.Choose(ctx, func(at *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict != cleanup.Delete {
			return nil
		}
		if items = append(items, itemOf(at, object)); len(items) < batchSize {
			return nil
		}
		err := batches.add(items)
		items = nil
		return err
	})
	if err == nil && len(items) > 0 {
		err = batches.add(items)
	}
	return errors.Join(err, batches.wait())
}

func itemOf(at *cleanup.Target, object *unstructured.Unstructured) v1alpha1.CleanupItem {
	return v1alpha1.CleanupItem{
		Group: at.Group, Version: at.Version, Kind: at.Kind, Resource: at.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}

// waiting says how to approve the policy.
func (r *run) waiting() string {
	kind := "ClusterCleanupApproval"
	if r.policy.Namespace != "" {
		kind = "CleanupApproval"
	}
	return fmt.Sprintf("nobody has approved the policy as it is now: look at the report of this run, and create a %s with policyUID %s and specHash %s", kind, r.policy.UID, r.policy.Hash)
}
