package world

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// CleanupPolicies are those that may delete objects of a namespace, or with "" of any. With
// clusterScoped they are those that may delete cluster-scoped objects. unread are the kinds that
// the user may not list.
func (w *World) CleanupPolicies(ctx context.Context, namespace string, clusterScoped bool) (all []*CleanupPolicy, unread []string, err error) {
	add := func(resource string, presence Presence, err error) error {
		if err == nil && presence == Unread {
			unread = append(unread, resource)
		}
		if Gone(err) {
			err = nil
		}
		return err
	}
	wide, presence, err := Items[v1alpha1.ClusterCleanupPolicy](ctx, w, v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies), "", "")
	if err := add(v1alpha1.ClusterCleanupPolicies, presence, err); err != nil {
		return nil, nil, err
	}
	for _, one := range wide {
		all = append(all, clusterCleanupPolicy(one))
	}
	if clusterScoped {
		return all, unread, nil
	}
	narrow, presence, err := Items[v1alpha1.CleanupPolicy](ctx, w, v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies), namespace, "")
	if err := add(v1alpha1.CleanupPolicies, presence, err); err != nil {
		return nil, nil, err
	}
	for _, one := range narrow {
		all = append(all, cleanupPolicy(one))
	}
	return all, unread, nil
}

// BlockRun adds to the entry of a cleanup policy what blocks the runs of all policies.
func (w *World) BlockRun(entry *Entry) {
	around := w.Controller.Surroundings()
	blocked := slices.Concat(around.SwitchedOff(policy.TriggerCleanup), w.Controller.down(),
		w.heldByPause(entry.Kind.GroupVersionKind, entry.Namespace, entry.Name, policy.TriggerCleanup, entry.Expiry))
	if around.DryRun {
		blocked = append(blocked, policy.Obstacle{Kind: policy.ObstacleDryRun, Message: "the controller runs with --dry-run", Stops: true})
	}
	entry.Obstacles = append(blocked, entry.Obstacles...)
	entry.Uncertain = (entry.Uncertain || len(w.Controller.unknown()) > 0) && entry.Blocker() == nil
}

// cronJobOf is the name of the CronJob that owns a Job; "" for none.
func cronJobOf(facts *policy.Facts) string {
	if facts.Owner == nil || facts.Owner.Kind != "CronJob" || facts.Owner.APIVersion != "batch/v1" {
		return ""
	}
	return facts.Owner.Name
}

// HistoryLimits says how many finished Jobs the CronJob that owns a Job keeps; "" for none, and
// where the user may not list CronJobs.
func (w *World) HistoryLimits(ctx context.Context, facts *policy.Facts) (string, error) {
	name := cronJobOf(facts)
	if name == "" {
		return "", nil
	}
	limits, err := w.historyLimits(ctx, facts.Namespace)
	return limits[types.NamespacedName{Namespace: facts.Namespace, Name: name}], err
}

// AddHistory sets History of the Jobs that CronJobs own. It lists the CronJobs of the namespace, or
// with "" of all, once, and only if there are such Jobs.
func (w *World) AddHistory(ctx context.Context, namespace string, entries []*Entry) error {
	for _, entry := range entries {
		if entry.CronJob == "" {
			continue
		}
		limits, err := w.historyLimits(ctx, namespace)
		if err != nil {
			return err
		}
		entry.History = limits[types.NamespacedName{Namespace: entry.Namespace, Name: entry.CronJob}]
	}
	return nil
}

// historyLimits are the limits of the CronJobs of a namespace, or with "" of all, in words.
func (w *World) historyLimits(ctx context.Context, namespace string) (map[types.NamespacedName]string, error) {
	return w.histories.get(namespace, func() (map[types.NamespacedName]string, error) {
		all, _, err := Items[batchv1.CronJob](ctx, w, batchv1.SchemeGroupVersion.WithResource("cronjobs"), namespace, "")
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && !Gone(err) {
			w.Note("history limits of CronJobs are not known: " + err.Error())
		} else if err != nil && !Gone(err) {
			return nil, err
		}
		out := map[types.NamespacedName]string{}
		for _, one := range all {
			out[types.NamespacedName{Namespace: one.Namespace, Name: one.Name}] = fmt.Sprintf("keeps the newest Jobs of CronJob %s: successfulJobsHistoryLimit %d, failedJobsHistoryLimit %d", one.Name,
				ptr.Deref(one.Spec.SuccessfulJobsHistoryLimit, 3), ptr.Deref(one.Spec.FailedJobsHistoryLimit, 1))
		}
		return out, nil
	})
}
