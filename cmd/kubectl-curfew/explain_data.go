package main

import (
	"time"

	"curfew.dev/curfew/policy"
)

// explainedData is the document of -o json.
type explainedData struct {
	Items []explainedItem `json:"items"`
	Notes []string        `json:"notes,omitempty"`
}

type explainedItem struct {
	Object   objectData `json:"object"`
	Summary  string     `json:"summary"`
	Created  *time.Time `json:"created,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
	State    string     `json:"state"`
	// Expiry does not regard obstacles.
	Expiry   *time.Time `json:"expiry"`
	Trigger  string     `json:"trigger,omitempty"`
	Source   string     `json:"source,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Propagation of the deletion, where a policy sets it.
	Propagation string         `json:"propagationPolicy,omitempty"`
	Levels      levelsData     `json:"levels"`
	Bounds      []settingData  `json:"bounds,omitempty"`
	Obstacles   []obstacleData `json:"obstacles,omitempty"`
	// Unknown are possible obstacles that this user cannot check.
	Unknown   []string `json:"unknown,omitempty"`
	Advice    []string `json:"advice,omitempty"`
	MayChange bool     `json:"mayChange"`
	MayDelete bool     `json:"mayDelete"`
}

type levelsData struct {
	TTL      []levelData `json:"ttl,omitempty"`
	Deadline []levelData `json:"deadline,omitempty"`
	Label    string      `json:"label,omitempty"`
}

type levelData struct {
	Level    string        `json:"level"`
	Decides  bool          `json:"decides,omitempty"`
	Settings []settingData `json:"settings,omitempty"`
	Why      string        `json:"why,omitempty"`
}

type settingData struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	// Source of a bound.
	Source string `json:"source,omitempty"`
	Error  string `json:"error,omitempty"`
}

func (e *explained) data() explainedItem {
	facts := e.of.Facts
	out := explainedItem{
		Object:  objectOf(e.kind, facts.Namespace, facts.Name, facts.UID),
		Summary: e.summary(), State: e.state(), Created: timeData(facts.Created, e.now), Finished: timeData(facts.FinishTime, e.now),
		Levels:    levelsData{TTL: levelsOf(e.of.TTL), Deadline: levelsOf(e.of.Deadline)},
		Obstacles: obstaclesData(e.obstacles), Unknown: e.unknown, Advice: e.advice(), MayChange: e.mayChange, MayDelete: e.mayDelete,
	}
	if propagation, _, err := e.of.Scope.Propagation(); err == nil {
		out.Propagation = string(propagation)
	}
	if e.of.LabelKey != "" {
		out.Levels.Label = facts.Labels[e.of.LabelKey]
	}
	for _, entry := range e.entries {
		if entry.Trigger == policy.TriggerDeadline {
			out.Deadline = timeData(entry.Expiry, e.now)
		} else {
			out.Expiry, out.Trigger, out.Source = timeData(entry.Expiry, e.now), string(entry.Trigger), entry.Source.String()
		}
	}
	for _, bound := range e.of.Bounds {
		out.Bounds = append(out.Bounds, settingOf(bound))
	}
	return out
}

func levelsOf(all []policy.Step) []levelData {
	var out []levelData
	for _, said := range all {
		level := levelData{Level: said.Source.String(), Decides: said.Decides, Why: said.Why}
		for _, setting := range said.Settings {
			data := settingOf(setting)
			data.Source = ""
			level.Settings = append(level.Settings, data)
		}
		out = append(out, level)
	}
	return out
}

func settingOf(setting *policy.Setting) settingData {
	out := settingData{Path: setting.Path, Value: setting.Text}
	if setting.Source.Name != "" {
		out.Source = setting.Source.String()
	}
	if setting.Err != nil {
		out.Error = setting.Err.Error()
	}
	return out
}

// printedOf are explanations in the forms that programs read.
func printedOf(all []*explained, notes []string) printed {
	data := explainedData{Items: []explainedItem{}, Notes: notes}
	out := printed{list: "items"}
	for _, one := range all {
		item := one.data()
		data.Items, out.objects = append(data.Items, item), append(out.objects, item.Object)
	}
	out.document = data
	return out
}
