package main

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// reportData is a run of a cleanup policy for programs.
type reportData struct {
	list[reportItem]
	Policy  objectData    `json:"policy" doc:"the cleanup policy"`
	Run     string        `json:"run" doc:"id of the run"`
	LastRun *runData      `json:"lastRun,omitempty" doc:"the run as a whole, if it is the last one"`
	Counts  []countData   `json:"counts,omitempty" doc:"objects by kind, namespace and result, those without a name in items included"`
	Skipped []skippedData `json:"skipped,omitempty" doc:"objects of the last run that were kept although they match"`
	Runs    []string      `json:"runs,omitempty" doc:"ids of all runs that have a report"`
}

// reportItem is an object that the run was about to delete.
type reportItem struct {
	Object  objectData `json:"object"`
	Result  string     `json:"result" doc:"Deleted, Gone (somebody else deleted it), Kept, Failed, Unknown (the API server did not answer), WouldDelete or Pending"`
	Message string     `json:"message,omitempty" doc:"why it was not deleted"`
}

type runData struct {
	Phase     string     `json:"phase" doc:"Running, Completed, Stalled or Failed"`
	DryRun    bool       `json:"dryRun,omitempty" doc:"nothing was deleted"`
	Scheduled time.Time  `json:"scheduledTime"`
	Started   time.Time  `json:"startTime"`
	Completed *time.Time `json:"completionTime,omitempty"`
	Listed    int64      `json:"listed" doc:"objects that were looked at"`
	Matched   int64      `json:"matched" doc:"objects to be deleted"`
	Deleted   int64      `json:"deleted"`
}

type countData struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Result    string `json:"result"`
	Count     int64  `json:"count"`
}

type skippedData struct {
	Reason  string `json:"reason"`
	Count   int64  `json:"count"`
	Message string `json:"message,omitempty" doc:"about the first of them"`
}

func (a *reportAnswer) data(now time.Time) reportData {
	var items []reportItem
	for _, each := range a.items() {
		version := schema.GroupVersion{Group: each.Group, Version: each.Version}
		items = append(items, reportItem{
			Object: objectData{version.String(), each.Kind, each.Namespace, each.Name, string(each.UID)}, Result: resultText(each), Message: each.Message,
		})
	}
	out := reportData{list: listOf("CleanupRunList", now, items, nil), Policy: policyData(a.policy), Run: a.run, Counts: a.counts(), Runs: a.runs}
	if last := a.last; last != nil {
		out.LastRun = &runData{
			Phase: string(last.Phase), DryRun: last.DryRun, Scheduled: last.ScheduledTime.In(now.Location()), Started: last.StartTime.In(now.Location()),
			Listed: last.Listed, Matched: last.Matched, Deleted: last.Deleted,
		}
		if last.CompletionTime != nil {
			out.LastRun.Completed = timeData(last.CompletionTime.Time, now)
		}
		for _, each := range last.Skipped {
			out.Skipped = append(out.Skipped, skippedData{each.Reason, each.Count, each.Message})
		}
	}
	return out
}

func policyData(policy *world.CleanupPolicy) objectData {
	return objectData{"curfew.dev/v1alpha1", policy.Kind, policy.Namespace, policy.Name, string(policy.UID)}
}
