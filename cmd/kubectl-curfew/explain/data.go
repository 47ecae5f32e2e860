package explain

import (
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
)

// Item is one explanation for programs.
type Item struct {
	Object      console.ObjectData     `json:"object"`
	Summary     string                 `json:"summary" doc:"the first line of the text"`
	Created     *time.Time             `json:"created,omitempty"`
	Finished    *time.Time             `json:"finished,omitempty"`
	State       string                 `json:"state"`
	Expiry      *time.Time             `json:"expiry" doc:"if nothing blocks it"`
	Trigger     string                 `json:"trigger,omitempty" doc:"ttl, label or cleanup"`
	Source      string                 `json:"source,omitempty"`
	Deadline    *time.Time             `json:"deadline,omitempty"`
	DeletedBy   string                 `json:"deletedBy,omitempty" doc:"who deletes it in Curfew's place, by the native TTL"`
	Deleted     *deletedData           `json:"deleted,omitempty" doc:"how Curfew deleted an object that does not exist any more"`
	With        *session.WithData      `json:"deletedWith,omitempty" doc:"its Namespace or owner, if the deletion of that deletes it first"`
	Propagation string                 `json:"propagationPolicy,omitempty" doc:"where a policy sets it"`
	Cleanup     []cleanupRunData       `json:"cleanup,omitempty" doc:"the next runs of cleanup policies that match it"`
	Unread      []string               `json:"cleanupUnknown,omitempty" doc:"what is not known of further runs"`
	History     string                 `json:"historyLimits,omitempty" doc:"of the CronJob that owns it"`
	Levels      levelsData             `json:"levels"`
	Bounds      []session.SettingData  `json:"bounds,omitempty"`
	Obstacles   []session.ObstacleData `json:"obstacles,omitempty"`
	Unknown     []string               `json:"unknown,omitempty" doc:"what may block it, and you may not check"`
	Advice      []string               `json:"advice,omitempty" doc:"commands that would change the expiry"`
	MayChange   bool                   `json:"mayChange" doc:"whether you may patch the object"`
	MayDelete   bool                   `json:"mayDelete" doc:"whether you may delete it"`
}

type levelsData struct {
	TTL      []levelData `json:"ttl,omitempty" doc:"in order of precedence"`
	Deadline []levelData `json:"deadline,omitempty" doc:"in order of precedence"`
	Label    string      `json:"label,omitempty" doc:"the value of the TTL label"`
}

type levelData struct {
	Level    string                `json:"level"`
	Decides  bool                  `json:"decides,omitempty"`
	Settings []session.SettingData `json:"settings,omitempty"`
	Why      string                `json:"why,omitempty"`
}

func (e *explained) data() Item {
	facts := e.of.Facts
	out := Item{
		Object:  session.ObjectOf(e.kind, facts.Namespace, facts.Name, facts.UID),
		Summary: e.summary(), State: e.state(), Created: console.TimeData(facts.Created, e.now), Finished: console.TimeData(facts.FinishTime, e.now),
		Cleanup: e.cleanupData(), Unread: e.cleanupsUnknown, History: e.history,
		Levels:    levelsData{TTL: levelsOf(e.of.TTL), Deadline: levelsOf(e.of.Deadline)},
		Obstacles: session.ObstaclesData(e.obstacles), Unknown: e.unknown, Advice: e.advice(), MayChange: e.mayChange, MayDelete: e.mayDelete,
	}
	if propagation, _, err := e.of.Scope.Propagation(); err == nil {
		out.Propagation = string(propagation)
	}
	if e.of.LabelKey != "" {
		out.Levels.Label = facts.Labels[e.of.LabelKey]
	}
	for _, entry := range e.entries {
		if judging.Stops(entry.Trigger) {
			out.Deadline = console.TimeData(entry.Expiry, e.now)
		} else {
			out.Expiry, out.Trigger, out.Source = console.TimeData(entry.Expiry, e.now), string(entry.Trigger), entry.Source.String()
			out.DeletedBy = entry.DeletedBy()
		}
	}
	if run := e.cleanedFirst(); run != nil && !run.Uncertain {
		out.Expiry, out.Trigger, out.Source, out.DeletedBy = console.TimeData(run.Expiry, e.now), string(run.Trigger), run.Source.String(), ""
	}
	for i := range out.Obstacles {
		out.Obstacles[i].Stops = out.Obstacles[i].Stops && !e.overtaken()
	}
	if e.withAnother() {
		out.With = session.WithDataOf(e.cascade, e.now)
	}
	for _, bound := range e.of.Bounds {
		out.Bounds = append(out.Bounds, session.SettingOf(bound))
	}
	return out
}

func levelsOf(all []resolution.Step) []levelData {
	var out []levelData
	for _, said := range all {
		level := levelData{Level: said.Source.String(), Decides: said.Decides, Why: said.Why}
		for _, setting := range said.Settings {
			data := session.SettingOf(setting)
			data.Source = ""
			level.Settings = append(level.Settings, data)
		}
		out = append(out, level)
	}
	return out
}

// printedOf are explanations in the forms that programs read.
func printedOf(all []*explained, now time.Time, notes []string) console.Printed {
	var out console.Printed
	var items []Item
	for _, one := range all {
		item := one.data()
		items, out.Objects = append(items, item), append(out.Objects, item.Object)
	}
	out.Document = console.ListOf("ExplanationList", now, items, notes)
	return out
}
