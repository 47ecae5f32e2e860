package main

import (
	"encoding/json"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
)

// changedData is the document of -o json.
type changedData struct {
	Items []changedItem `json:"items"`
}

type changedItem struct {
	Object   objectData      `json:"object"`
	Before   deletionData    `json:"before"`
	After    deletionData    `json:"after"`
	Patch    json.RawMessage `json:"patch"`
	Warnings []string        `json:"warnings,omitempty"`
}

type deletionData struct {
	Expiry *time.Time `json:"expiry"`
	// TTL of an unfinished object, and TTLFailed after a failure where that differs.
	TTL       string `json:"ttlAfterFinished,omitempty"`
	TTLFailed string `json:"ttlAfterFailed,omitempty"`
}

// printedChanges are the changes in the forms that programs read.
func printedChanges(changed []*planned, now time.Time) printed {
	data := changedData{Items: []changedItem{}}
	out := printed{list: "items"}
	for _, each := range changed {
		item := changedOf(each, now)
		data.Items, out.objects = append(data.Items, item), append(out.objects, item.Object)
	}
	out.document = data
	return out
}

func changedOf(each *planned, now time.Time) changedItem {
	patch, err := json.Marshal(each.plan.Patch)
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
		Object: objectOf(each.Kind, each.namespace, each.name, ""),
		Before: deletion(each.plan.Before), After: deletion(each.plan.After), Patch: patch, Warnings: each.plan.Warnings,
	}
}
