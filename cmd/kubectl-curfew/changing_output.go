package main

import (
	"encoding/json"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// changedItem is one change for programs.
type changedItem struct {
	Object   objectData      `json:"object"`
	Before   deletionData    `json:"before"`
	After    deletionData    `json:"after"`
	Patch    json.RawMessage `json:"patch" doc:"the JSON merge patch; {} where the object was already as wanted"`
	Warnings []string        `json:"warnings,omitempty" doc:"what admission would warn about"`
}

type deletionData struct {
	Expiry    *time.Time `json:"expiry" doc:"null where the object stays or has not finished"`
	TTL       string     `json:"ttlAfterFinished,omitempty" doc:"of an object that has not finished"`
	TTLFailed string     `json:"ttlAfterFailed,omitempty" doc:"where it differs after a failure"`
}

// printedChanges are the changes in the forms that programs read.
func printedChanges(changed []*planned, now time.Time) printed {
	var out printed
	var items []changedItem
	for _, each := range changed {
		if each.Gone != nil {
			continue
		}
		item := changedOf(each, now)
		items, out.objects = append(items, item), append(out.objects, item.Object)
	}
	out.document = listOf("ChangeList", now, items, nil)
	return out
}

func changedOf(each *planned, now time.Time) changedItem {
	plan := each.plan
	if each.unchanged() {
		plan = &change.Plan{Patch: map[string]any{}, Before: each.before, After: each.before}
	}
	patch, err := json.Marshal(plan.Patch)
	if err != nil {
		patch = []byte("null") // Plain data always marshals.
	}
	deletion := func(of change.Deletion) deletionData {
		out := deletionData{Expiry: timeData(of.Expiry, now)}
		if of.After != nil {
			out.TTL = of.After.String()
		}
		if of.AfterFailure != nil {
			out.TTLFailed = of.AfterFailure.String()
		}
		return out
	}
	return changedItem{
		Object: objectOf(each.Kind, each.Namespace, each.Name, world.UIDOf(each.Object)),
		Before: deletion(plan.Before), After: deletion(plan.After), Patch: patch, Warnings: plan.Warnings,
	}
}
