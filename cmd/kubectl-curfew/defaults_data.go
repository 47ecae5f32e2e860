package main

import (
	"maps"
	"slices"
	"time"

	"curfew.dev/curfew/policy"
)

// defaultsData is the answer for programs.
type defaultsData struct {
	list[defaultsItem]
	Namespace string        `json:"namespace"`
	Mode      string        `json:"mode" doc:"of the namespace: enforce, warn or dry-run"`
	Unusable  []settingData `json:"unusable,omitempty" doc:"settings that cannot be used"`
}

// defaultsItem is what a new object of one kind is given.
type defaultsItem struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Resource   string        `json:"resource"`
	Succeeded  *settingData  `json:"ttlSucceeded,omitempty" doc:"TTL after success, within the bounds"`
	Failed     *settingData  `json:"ttlFailed,omitempty" doc:"TTL after failure, within the bounds"`
	Deadline   *settingData  `json:"deadline,omitempty"`
	Label      *settingData  `json:"ttlLabel,omitempty"`
	Bounds     []settingData `json:"bounds,omitempty" doc:"of all sources"`
	Depends    []string      `json:"depends,omitempty" doc:"what may decide otherwise for single objects: a policy, or the runtime"`
}

func (a *defaultsAnswer) data(now time.Time) defaultsData {
	var items []defaultsItem
	for _, each := range a.kinds {
		item := defaultsItem{APIVersion: each.Kind.GroupVersion().String(), Kind: each.Kind.Kind, Resource: each.Kind.Resource,
			Succeeded: valueData(each.Succeeded), Failed: valueData(each.Failed), Deadline: valueData(each.Deadline), Depends: each.Depends}
		if from := each.LabelFrom; from != nil {
			label := settingOf(from)
			if each.Label != "" {
				label.Value = each.Label
			}
			item.Label = &label
		}
		for _, bound := range each.Bounds {
			item.Bounds = append(item.Bounds, settingOf(bound))
		}
		items = append(items, item)
	}
	out := defaultsData{list: listOf("DefaultsList", now, items, a.notes.Notes()), Namespace: a.namespace.Name, Mode: string(a.namespace.Mode)}
	for _, one := range a.unusable() {
		out.Unusable = append(out.Unusable, settingOf(one))
	}
	return out
}

// valueData is a default as it is filled in, within the bounds; nil for none.
func valueData(value policy.Value) *settingData {
	if !value.Set {
		return nil
	}
	out := &settingData{Path: value.Path, Value: value.TTL.String(), Source: value.Source.String()}
	if value.Err != nil {
		out.Value, out.Error = value.Text, value.Err.Error()
	}
	return out
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
