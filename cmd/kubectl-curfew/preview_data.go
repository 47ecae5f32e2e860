package main

import "time"

// previewData is what a run would do, for programs.
type previewData struct {
	list[previewItem]
	Policy   objectData    `json:"policy" doc:"the cleanup policy"`
	Account  string        `json:"serviceAccount,omitempty" doc:"whose rights the policy has, as NAMESPACE/NAME; absent where no cluster was asked"`
	OwnRight bool          `json:"ownRights,omitempty" doc:"objects were listed with your rights and not with those of the account"`
	Listed   int64         `json:"listed" doc:"objects that were looked at"`
	Deleted  int64         `json:"wouldDelete" doc:"objects that the run would delete"`
	Counts   []countData   `json:"counts,omitempty" doc:"objects to delete, by kind and namespace"`
	Skipped  []skippedData `json:"skipped,omitempty" doc:"objects that are kept although they match"`
	Stalled  *stalledData  `json:"stalled,omitempty" doc:"why the run would delete nothing"`
	Waits    bool          `json:"waitsForApproval,omitempty" doc:"nobody has approved the policy as it is"`
	DryRun   bool          `json:"dryRun,omitempty" doc:"of the policy or the controller"`
	Suspend  bool          `json:"suspended,omitempty"`
	Zone     string        `json:"timeZone" doc:"of the schedule"`
	Runs     []time.Time   `json:"nextRuns,omitempty" doc:"the next five, in the time zone of the schedule"`
}

type stalledData struct {
	Reason  string `json:"reason" doc:"as in the condition Stalled"`
	Message string `json:"message"`
}

// previewItem is an object that the policy matches.
type previewItem struct {
	Object  objectData `json:"object"`
	Result  string     `json:"result" doc:"WouldDelete, Skipped, or Stalled (would be deleted without the limit)"`
	Reason  string     `json:"reason,omitempty" doc:"why it is skipped, in one word"`
	Message string     `json:"message,omitempty"`
}

func (a *previewAnswer) printed() printed {
	var out printed
	var items []previewItem
	for _, each := range a.Objects {
		object := objectData{each.GroupVersion().String(), each.Kind, each.Namespace, each.Name, each.UID}
		if a.offline {
			object.UID = "" // It is made up.
		}
		items = append(items, previewItem{object, a.result(each), each.Reason, each.Message})
		if a.result(each) == wouldDelete {
			out.objects = append(out.objects, object)
		}
	}
	p := a.Policy
	data := previewData{
		list: listOf("PreviewList", a.Now, items, a.notes), Listed: a.Listed, Deleted: a.Deleted, Account: a.account, OwnRight: a.own, Waits: a.waits,
		DryRun: p.Spec.DryRun || a.controllerDryRun, Suspend: p.Spec.Suspend, Zone: p.Schedule.Location().String(), Runs: a.Upcoming,
		Policy: objectData{APIVersion: "curfew.dev/v1alpha1", Kind: "ClusterCleanupPolicy", Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
	}
	if p.Namespace != "" {
		data.Policy.Kind = "CleanupPolicy"
	}
	for _, each := range a.Groups() {
		data.Counts = append(data.Counts, countData{each.Group, each.Kind, each.Namespace, wouldDelete, int64(each.Count)})
	}
	for _, each := range a.Skipped {
		data.Skipped = append(data.Skipped, skippedData{each.Reason, each.Count, each.Message})
	}
	if a.Stalled != nil {
		data.Stalled = &stalledData{a.Stalled.Reason, a.Stalled.Error()}
	}
	out.document = data
	return out
}
