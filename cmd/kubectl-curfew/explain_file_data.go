package main

import "time"

// forecastItem is one object for programs.
type forecastItem struct {
	Object    objectData    `json:"object"`
	File      string        `json:"file,omitempty"`
	Line      int           `json:"line,omitempty" doc:"where the object begins"`
	Summary   string        `json:"summary" doc:"the first line of the text"`
	Rejected  []string      `json:"rejected,omitempty" doc:"why admission would reject it"`
	Succeeded *settingData  `json:"ttlSucceeded,omitempty" doc:"its TTL once it has succeeded, within the bounds"`
	Failed    *settingData  `json:"ttlFailed,omitempty" doc:"its TTL once it has failed"`
	Deadline  *settingData  `json:"deadline,omitempty"`
	Filled    []string      `json:"filledIn,omitempty" doc:"what admission would fill in"`
	Levels    levelsData    `json:"levels"`
	Bounds    []settingData `json:"bounds,omitempty"`
}

func forecastData(all []*forecast, now time.Time, notes []string) printed {
	var out printed
	var items []forecastItem
	for _, one := range all {
		facts, effective := one.of.Facts, one.of.Effective
		item := forecastItem{
			Object: objectOf(one.kind, facts.Namespace, facts.Name, ""), File: one.file, Line: one.line, Summary: one.outlook(), Rejected: one.rejected,
			Succeeded: valueData(effective.Succeeded), Failed: valueData(effective.Failed), Deadline: valueData(effective.Deadline),
			Levels: levelsData{TTL: levelsOf(one.of.TTL), Deadline: levelsOf(one.of.Deadline), Label: facts.Labels[one.of.LabelKey]},
		}
		for _, filled := range one.filled {
			item.Filled = append(item.Filled, filled.String())
		}
		for _, bound := range one.of.Bounds {
			item.Bounds = append(item.Bounds, settingOf(bound))
		}
		items, out.objects = append(items, item), append(out.objects, item.Object)
	}
	out.document = listOf("ForecastList", now, items, notes)
	return out
}
