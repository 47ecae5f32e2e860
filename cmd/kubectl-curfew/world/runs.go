package world

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

// HistoryLimits says how many finished Jobs the CronJob that owns a Job keeps; "" for none, and
// where the user may not read it.
func (w *World) HistoryLimits(ctx context.Context, facts *policy.Facts) (string, error) {
	if facts.Owner == nil || facts.Owner.Kind != "CronJob" || facts.Owner.APIVersion != "batch/v1" {
		return "", nil
	}
	type cronJob struct {
		Spec struct {
			Successful *int32 `json:"successfulJobsHistoryLimit"`
			Failed     *int32 `json:"failedJobsHistoryLimit"`
		} `json:"spec"`
	}
	at := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
	read, presence, err := Read[cronJob](ctx, w, at, facts.Namespace, facts.Owner.Name)
	if err != nil || presence != Found {
		return "", err
	}
	limit := func(set *int32, otherwise int32) int32 {
		if set != nil {
			return *set
		}
		return otherwise
	}
	return fmt.Sprintf("keeps the newest Jobs of CronJob %s: successfulJobsHistoryLimit %d, failedJobsHistoryLimit %d", facts.Owner.Name,
		limit(read.Spec.Successful, 3), limit(read.Spec.Failed, 1)), nil
}
