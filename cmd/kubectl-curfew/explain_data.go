package main

import (
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// explainedItem is one explanation for programs.
type explainedItem struct {
	Object      objectData       `json:"object"`
	Summary     string           `json:"summary" doc:"the first line of the text"`
	Created     *time.Time       `json:"created,omitempty"`
	Finished    *time.Time       `json:"finished,omitempty"`
	State       string           `json:"state"`
	Expiry      *time.Time       `json:"expiry" doc:"if nothing blocks it"`
	Trigger     string           `json:"trigger,omitempty" doc:"ttl, label or cleanup"`
	Source      string           `json:"source,omitempty"`
	Deadline    *time.Time       `json:"deadline,omitempty"`
	DeletedBy   string           `json:"deletedBy,omitempty" doc:"who deletes it in Curfew's place, by the native TTL"`
	Deleted     *deletedData     `json:"deleted,omitempty" doc:"how Curfew deleted an object that does not exist any more"`
	With        *withData        `json:"deletedWith,omitempty" doc:"its Namespace or owner, if the deletion of that deletes it first"`
	Propagation string           `json:"propagationPolicy,omitempty" doc:"where a policy sets it"`
	Cleanup     []cleanupRunData `json:"cleanup,omitempty" doc:"the next runs of cleanup policies that match it"`
	Unread      []string         `json:"cleanupUnknown,omitempty" doc:"what is not known of further runs"`
	History     string           `json:"historyLimits,omitempty" doc:"of the CronJob that owns it"`
	Levels      levelsData       `json:"levels"`
	Bounds      []settingData    `json:"bounds,omitempty"`
	Obstacles   []obstacleData   `json:"obstacles,omitempty"`
	Unknown     []string         `json:"unknown,omitempty" doc:"what may block it, and you may not check"`
	Advice      []string         `json:"advice,omitempty" doc:"commands that would change the expiry"`
	MayChange   bool             `json:"mayChange" doc:"whether you may patch the object"`
	MayDelete   bool             `json:"mayDelete" doc:"whether you may delete it"`
}

// withData is another object, whose deletion deletes this one.
type withData struct {
	Object objectData `json:"object"`
	Expiry *time.Time `json:"expiry" doc:"null if that is to finish first, or being deleted"`
}

func withDataOf(with *world.Cascade, now time.Time) *withData {
	out := &withData{Object: objectOf(with.Kind, with.Namespace, with.Name, "")}
	if with.Entry != nil {
		out.Expiry = timeData(with.Entry.Expiry, now)
	}
	return out
}

type levelsData struct {
	TTL      []levelData `json:"ttl,omitempty" doc:"in order of precedence"`
	Deadline []levelData `json:"deadline,omitempty" doc:"in order of precedence"`
	Label    string      `json:"label,omitempty" doc:"the value of the TTL label"`
}

type levelData struct {
	Level    string        `json:"level"`
	Decides  bool          `json:"decides,omitempty"`
	Settings []settingData `json:"settings,omitempty"`
	Why      string        `json:"why,omitempty"`
}

type settingData struct {
	Path   string `json:"path" doc:"the annotation or field"`
	Value  string `json:"value" doc:"as written"`
	Source string `json:"source,omitempty" doc:"of a bound"`
	Error  string `json:"error,omitempty" doc:"why the value cannot be used"`
}

func (e *explained) data() explainedItem {
	facts := e.of.Facts
	out := explainedItem{
		Object:  objectOf(e.kind, facts.Namespace, facts.Name, facts.UID),
		Summary: e.summary(), State: e.state(), Created: timeData(facts.Created, e.now), Finished: timeData(facts.FinishTime, e.now),
		Cleanup: e.cleanupData(), Unread: e.cleanupsUnknown, History: e.history,
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
			out.DeletedBy = entry.DeletedBy()
		}
	}
	if run := e.cleanedFirst(); run != nil && !run.Uncertain {
		out.Expiry, out.Trigger, out.Source, out.DeletedBy = timeData(run.Expiry, e.now), string(run.Trigger), run.Source.String(), ""
	}
	for i := range out.Obstacles {
		out.Obstacles[i].Stops = out.Obstacles[i].Stops && !e.overtaken()
	}
	if e.withAnother() {
		out.With = withDataOf(e.cascade, e.now)
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
func printedOf(all []*explained, now time.Time, notes []string) printed {
	var out printed
	var items []explainedItem
	for _, one := range all {
		item := one.data()
		items, out.objects = append(items, item), append(out.objects, item.Object)
	}
	out.document = listOf("ExplanationList", now, items, notes)
	return out
}
