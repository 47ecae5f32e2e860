package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
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
	Unread      []string               `json:"cleanupUnknown,omitempty" doc:"which further runs could not be read, and why"`
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
		Summary: e.summary(), State: e.state(), Cleanup: e.cleanupData(), Unread: e.cleanupsUnknown, History: e.history,
		Created: console.TimeData(facts.Created, e.now), Finished: console.TimeData(facts.FinishTime, e.now),
		Bounds:    console.Map(e.of.Bounds, session.SettingOf),
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
	return out
}

func levelsOf(all []resolution.Step) []levelData {
	var out []levelData
	for _, step := range all {
		level := levelData{Level: step.Source.String(), Decides: step.Decides, Why: step.Why}
		for _, setting := range step.Settings {
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
	for _, explained := range all {
		item := explained.data()
		items, out.Objects = append(items, item), append(out.Objects, item.Object)
	}
	out.Document = console.ListOf("ExplanationList", now, items, notes)
	return out
}

// writeAll writes answers with an empty line between them.
func writeAll[T interface{ text(out io.Writer) error }](all []T, out io.Writer) error {
	for i, item := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := item.text(out); err != nil {
			return err
		}
	}
	return nil
}

// in is the namespace of an object, after its name.
func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// flagOf is the namespace of an object, after its name in a command line.
func flagOf(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}

// rows have one cell each, which begins with a text.
func rows(begin string, texts []string) [][]string {
	return console.Map(texts, func(text string) []string { return []string{begin + text} })
}

// part is a part of an answer, which is left out without rows.
type part struct {
	title string
	rows  [][]string
}

func writeParts(out io.Writer, parts []part) error {
	for _, part := range parts {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", part.title)
		if err := console.PrintAligned(out, part.rows); err != nil {
			return err
		}
	}
	return nil
}

// text writes the answer first, then the details.
func (e *explained) text(out io.Writer) error {
	facts, zone := e.of.Facts, e.now.Location()
	fmt.Fprintf(out, "%s\n\n", console.OneLine(e.kind.Name(facts.Name)+in(facts.Namespace)+" "+e.summary()))
	about := [][]string{{"Created", console.Instant(facts.Created, zone) + ", " + console.Relative(facts.Created, e.now)}}
	about = append(about, []string{"State", e.state()})
	if deadline := e.deadline(); deadline != "" {
		about = append(about, []string{"Deadline", deadline})
	}
	if propagation, source, err := e.of.Scope.Propagation(); err == nil && propagation != "" {
		about = append(about, []string{"Propagation", string(propagation) + ", set by " + source.Phrase()})
	}
	if owner := facts.Owner; owner != nil {
		about = append(about, []string{"Owner", owner.Kind + " " + owner.Name})
	}
	if err := console.PrintAligned(out, about); err != nil {
		return err
	}
	return writeParts(out, []part{
		{"TTL after finished", levels(e.of.TTL, e.of.ByTTL)},
		{"TTL label", e.label()},
		{"Deadline", levels(e.of.Deadline, e.of.ByDeadline)},
		{"Bounds", e.bounds()},
		{"Cleanup policies", e.cleanupRows()},
		{e.blockedTitle(), e.blockers()},
		{"Also deleted by", e.alsoDeletedBy()},
		{"To change it", e.toChange()},
	})
}

func (e *explained) state() string {
	facts, zone := e.of.Facts, e.now.Location()
	switch {
	case facts.StateError != nil:
		return "cannot be read: " + facts.StateError.Error()
	case !facts.Profile.Finishable():
		return "a " + e.kind.Kind + " does not finish"
	case facts.Finished && facts.FinishTime.IsZero():
		return facts.Outcome.String() + "; it does not say when"
	case facts.Finished:
		return facts.Outcome.String() + " at " + console.Instant(facts.FinishTime, zone) + ", " + console.Relative(facts.FinishTime, e.now)
	case facts.Suspended:
		return "suspended"
	case facts.Started.IsZero():
		return "not started"
	default:
		return "active since " + console.Instant(facts.Started, zone) + ", " + console.Relative(facts.Started, e.now)
	}
}

// levels are the levels of precedence. A mark shows the one that decides.
func levels(all []resolution.Step, verdict policy.Verdict) [][]string {
	if len(all) == 0 {
		return [][]string{{"   none: " + verdict.Reason}}
	}
	var out [][]string
	for _, step := range all {
		mark := "   "
		if step.Decides {
			mark = " > "
		}
		var parts []string
		for _, setting := range step.Settings {
			field := setting.Field()
			if step.Source.Level == lifetime.LevelPolicy {
				field = setting.Path
			}
			parts = append(parts, session.SettingText(field, setting))
		}
		text := strings.Join(parts, ", ")
		switch {
		case text == "" && step.Why == "":
			text = "nothing"
		case text == "":
			text = step.Why
		case step.Why != "":
			text += "; " + step.Why
		}
		out = append(out, []string{mark + step.Source.String(), text})
	}
	return out
}

func (e *explained) label() [][]string {
	if e.of.LabelKey == "" {
		return [][]string{{"   none"}}
	}
	text := e.of.LabelKey + ": " + e.of.Facts.Labels[e.of.LabelKey]
	switch verdict := e.of.ByLabel; {
	case verdict.Err != nil:
		text += ", which cannot be used: " + verdict.Err.Error()
	case !verdict.Expiry.IsZero():
		text += fromSource(verdict.Source) + ", which is " + console.Instant(verdict.Expiry, e.now.Location())
	}
	return [][]string{{"   " + text}}
}

func (e *explained) bounds() [][]string {
	var out [][]string
	for _, bound := range e.of.Bounds {
		text := session.SettingText(bound.Field(), bound)
		if bound.Source.Name != "" {
			text += " of " + bound.Source.Phrase()
		}
		out = append(out, []string{"   " + text})
	}
	for _, platformPolicy := range e.of.Scope.Policies {
		if !platformPolicy.LatestDate.IsZero() {
			source := lifetime.Source{Level: lifetime.LevelPolicy, Name: platformPolicy.Name}
			out = append(out, []string{"   latestDate " + platformPolicy.LatestDate.UTC().Format(time.DateOnly) + " of " + source.Phrase()})
		}
	}
	if len(out) == 0 {
		return [][]string{{"   none"}}
	}
	return out
}

// blockedTitle names whom the obstacles stop: the kind's own controller knows none of them.
func (e *explained) blockedTitle() string {
	if e.overtaken() && e.blocked() {
		return "Curfew alone is blocked by"
	}
	return "Blocked by"
}

func (e *explained) blockers() [][]string {
	out := console.Map(e.obstacles, func(o judging.Obstacle) []string { return []string{"   " + string(o.Kind), o.Message} })
	if len(out) == 0 {
		out = append(out, []string{"   nothing"})
		if len(e.unknown) > 0 {
			out[0][0] += " that is known"
		}
	}
	return append(out, rows("   not known: ", e.unknown)...)
}

func (e *explained) toChange() [][]string {
	out := rows("   ", e.advice())
	if len(out) == 0 {
		out = append(out, []string{"   nothing can be done about it here"})
	}
	if why := e.fixedDeadline(); why != "" {
		out = append(out, []string{"   " + why})
	}
	if !e.mayChange {
		out = append(out, []string{"   you may not change it: ask for the verb patch on " + e.kind.GroupResource().String()})
	}
	return out
}
