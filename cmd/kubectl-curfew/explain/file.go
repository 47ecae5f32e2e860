package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// fileOptions are the flags of explain -f.
type fileOptions struct {
	files     []string
	recursive bool
	offline   bool
}

func (o *fileOptions) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&o.files, "filename", "f", nil,
		"file or directory with manifests to explain, or - for standard input; may be given more than once")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "with -f, read the directories below as well")
	flags.BoolVar(&o.offline, "offline", false, "with -f, ask no cluster: only the manifests themselves apply")
}

// forecast is the future of one object of a manifest, if it were created now.
type forecast struct {
	*explained
	file string
	line int
	// rejected are the reasons why admission would reject it.
	rejected []string
	filled   []resolution.Default
	// unknown means that its namespace is not known.
	unknown bool
}

// runFiles explains the objects of manifests, by the cluster's settings and those among the
// manifests.
func (o *explainOptions) runFiles(ctx context.Context, call *session.Call) error {
	if len(o.selection.Args) > 0 || o.selection.Selector != "" || o.selection.All || o.selection.Everywhere {
		return errors.New("-f explains the objects of manifests: leave KIND, -l, --all and -A out")
	}
	files, err := folders.ListFiles(o.from.files, o.from.recursive, nil, call.In)
	if err != nil {
		return err
	}
	progress := call.Progress
	options, notes, err := o.context(ctx, progress)
	if err != nil {
		return err
	}
	linter, err := lint.NewLinter(ctx, options)
	if err != nil {
		return err
	}
	manifests := folders.NewManifests(files)
	if err := session.AddAll(ctx, linter, manifests, progress); err != nil {
		return err
	}
	if len(manifests.Unreadable) > 0 {
		return manifests.Unreadable[0]
	}
	var all []*forecast
	if err := manifests.Each(ctx, progress, func(document *lint.Document) error {
		if document.Kind().Group == wellknown.Group {
			return nil // It is context for the others.
		}
		forecast, err := forecastOf(ctx, linter, document, options)
		all = append(all, forecast)
		return err
	}); err != nil {
		return err
	}
	progress.Done()
	if len(all) == 0 {
		return errors.New("there is no object in what -f names: give at least one")
	}
	notices := slices.Concat(notes(), unknownNamespaces(all), o.unreviewed(ctx, all, options.Rules.Controller.Protect))
	if call.Print != nil {
		return call.Print(forecastData(all, options.Now, notices), call.Out)
	}
	console.PrintNotes(notices, call.Diagnostics)
	return writeAll(all, call.Out)
}

// unknownNamespaces are notes about the namespaces whose settings may change the answer.
func unknownNamespaces(all []*forecast) []string {
	var out []string
	for _, forecast := range all {
		note := fmt.Sprintf("namespace %q is not known: its defaults and bounds may change the answer", forecast.of.Facts.Namespace)
		if forecast.unknown && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// context is what the manifests are explained by: the cluster, or without one the built-in profiles
// alone.
func (o *explainOptions) context(ctx context.Context, progress *console.Progress) (options lint.Options, notes func() []string, err error) {
	own, schemas, err := session.Builtin()
	if err != nil {
		return options, nil, err
	}
	options = lint.Options{Source: platform.Offline{Platform: own.Snapshot()}, Schemas: schemas, Now: o.Now()}
	options.Rules.Controller = judging.Surroundings{Protect: judging.DefaultProtect()}
	if o.from.offline {
		if len(o.with) > 0 {
			return options, nil, errors.New("--with needs a cluster: with --offline, name the file with -f as well")
		}
		options.Namespace = o.Overrides.Context.Namespace
		return options, func() []string { return nil }, nil
	}
	with, err := session.ReadOverlay(ctx, o.with)
	if err != nil {
		return options, nil, err
	}
	if options.Namespace, err = o.Namespace(); err != nil {
		return options, nil, err
	}
	w, err := o.Open(ctx, options.Now, with, progress)
	if err != nil {
		return options, nil, err
	}
	options.Source = w.Source()
	options.Rules = rules.Options{KyvernoLabel: w.Controller.Alias, Controller: w.Controller.Surroundings()}
	return options, w.Notes, nil
}

// maxCanaries is about how many namespaces explain -f asks whether admission works there.
const maxCanaries = 10

// unreviewed are notes about namespaces whose objects the API server does not send to Curfew, or
// may not. The forecasts are complete without them: an error is a note, too.
func (o *explainOptions) unreviewed(ctx context.Context, all []*forecast, protect []string) (notes []string) {
	if o.from.offline {
		return nil
	}
	warnings := &session.CollectedWarnings{}
	clients, err := o.Connect(o.Config, warnings)
	if err != nil {
		return []string{err.Error()}
	}
	asks, asked := &session.Canary{Objects: clients.Objects, Said: warnings, Left: protect}, map[string]bool{"": true}
	more := map[string]bool{}
	for _, forecast := range all {
		namespace := forecast.of.Facts.Namespace
		if asked[namespace] {
			continue
		}
		if len(asked) > maxCanaries {
			more[namespace] = true
			continue
		}
		asked[namespace] = true
		answer, why, err := asks.Reviewed(ctx, namespace)
		switch {
		case err != nil:
			notes = append(notes, console.OneLine(err.Error()))
		case answer == rules.No:
			notes = append(notes, why+": nothing is filled in or rejected until it does; kubectl curfew status shows why")
		case answer == rules.Unknown && !forecast.unknown:
			notes = append(notes, why)
		}
	}
	if len(more) > 0 {
		notes = append(notes, fmt.Sprintf("whether the API server calls Curfew's webhook is not known for %s more: it is asked about %d",
			console.Count(len(more), "namespace"), maxCanaries))
	}
	return notes
}

func forecastOf(ctx context.Context, linter *lint.Linter, document *lint.Document, options lint.Options) (*forecast, error) {
	explanation, known, err := linter.Explain(ctx, document)
	if err != nil {
		return nil, err
	}
	judged, err := linter.Judge(ctx, document)
	if err != nil {
		return nil, err
	}
	kind := world.Kind{GroupVersionKind: explanation.Facts.Profile.Kind, Resource: explanation.Facts.Profile.Resource, Profile: explanation.Facts.Profile}
	if explanation.Facts.Profile.Unknown {
		kind.GroupVersionKind = document.Kind()
	}
	out := &forecast{
		explained: &explained{kind: kind, of: explanation, now: options.Now},
		file:      document.File, line: document.Line, filled: judged.Defaults, unknown: !known,
	}
	for i := range judged.Findings {
		if finding := &judged.Findings[i]; finding.Severity == rules.Deny {
			out.rejected = append(out.rejected, finding.Finding.String())
		}
	}
	return out, nil
}

// ForecastItem is one object for programs.
type ForecastItem struct {
	Object    console.ObjectData    `json:"object"`
	File      string                `json:"file,omitempty"`
	Line      int                   `json:"line,omitempty" doc:"where the object begins"`
	Summary   string                `json:"summary" doc:"the first line of the text"`
	Rejected  []string              `json:"rejected,omitempty" doc:"why admission would reject it"`
	Succeeded *session.SettingData  `json:"ttlSucceeded,omitempty" doc:"its TTL once it has succeeded, within the bounds"`
	Failed    *session.SettingData  `json:"ttlFailed,omitempty" doc:"its TTL once it has failed"`
	Deadline  *session.SettingData  `json:"deadline,omitempty"`
	Filled    []string              `json:"filledIn,omitempty" doc:"what admission would fill in"`
	Levels    levelsData            `json:"levels"`
	Bounds    []session.SettingData `json:"bounds,omitempty"`
}

func forecastData(all []*forecast, now time.Time, notes []string) console.Printed {
	var out console.Printed
	var items []ForecastItem
	for _, forecast := range all {
		facts, effective := forecast.of.Facts, forecast.of.Effective
		item := ForecastItem{
			Object: session.ObjectOf(forecast.kind, facts.Namespace, facts.Name, ""), File: forecast.file, Line: forecast.line,
			Summary: forecast.outlook(), Rejected: forecast.rejected, Filled: console.Map(forecast.filled, resolution.Default.String),
			Succeeded: session.ValueData(effective.Succeeded), Failed: session.ValueData(effective.Failed),
			Deadline: session.ValueData(effective.Deadline), Bounds: console.Map(forecast.of.Bounds, session.SettingOf),
			Levels: levelsData{TTL: levelsOf(forecast.of.TTL), Deadline: levelsOf(forecast.of.Deadline), Label: facts.Labels[forecast.of.LabelKey]},
		}
		items, out.Objects = append(items, item), append(out.Objects, item.Object)
	}
	out.Document = console.ListOf("ForecastList", now, items, notes)
	return out
}

// outlook is the answer in one sentence.
func (p *forecast) outlook() string {
	if len(p.rejected) > 0 {
		return "would be rejected by admission"
	}
	var parts []string
	if text := p.afterwards(); text != "" {
		parts = append(parts, text)
	}
	if verdict := p.of.ByLabel; p.of.LabelKey != "" && verdict.Err == nil && !verdict.Expiry.IsZero() {
		parts = append(parts, fmt.Sprintf("expires %s, created now, by label %s=%s",
			console.Instant(verdict.Expiry, p.now.Location()), p.of.LabelKey, p.of.Facts.Labels[p.of.LabelKey]))
	}
	if value := p.of.Effective.Deadline; value.Set && value.Err == nil && !value.TTL.Never {
		parts = append(parts, fmt.Sprintf("is stopped once it was active for %s, by %s deadline%s",
			value.TTL, ownTTL(value.Source, "the"), fromSource(value.Source)))
	}
	if len(parts) == 0 {
		return "stays: nothing gives it a TTL, a TTL label or a deadline"
	}
	return strings.Join(parts, "; ")
}

// afterwards says what its TTL after finished does; "" without one.
func (p *forecast) afterwards() string {
	by := func(value resolution.Value) string {
		return ", by " + ownTTL(value.Source, "the") + " TTL" + fromSource(value.Source)
	}
	say := func(value resolution.Value, when string) string {
		switch {
		case !value.Set || value.Err != nil:
			return ""
		case value.TTL.Never:
			return "stays after it has " + when + by(value)
		default:
			return "expires " + value.TTL.String() + " after it has " + when + by(value)
		}
	}
	succeeded, failed := p.of.Effective.Succeeded, p.of.Effective.Failed
	if succeeded.Set == failed.Set && succeeded.TTL == failed.TTL && succeeded.Source == failed.Source {
		return say(succeeded, "finished")
	}
	var parts []string
	for _, text := range []string{say(succeeded, "succeeded"), say(failed, "failed")} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

func (p *forecast) text(out io.Writer) error {
	fmt.Fprintf(out, "%s %s\n", console.OneLine(p.kind.Name(p.of.Facts.Name)+in(p.of.Facts.Namespace)+" ("+console.Where(p.file, p.line)+")"), console.OneLine(p.outlook()))
	return writeParts(out, []part{
		{"Rejected because of", rows("   ", p.rejected)},
		{"Filled in", rows("   ", console.Map(p.filled, resolution.Default.String))},
		{"TTL after finished", levels(p.of.TTL, p.of.ByTTL)},
		{"TTL label", p.label()},
		{"Deadline", levels(p.of.Deadline, p.of.ByDeadline)},
		{"Bounds", p.bounds()},
		{"Also deleted by", p.alsoDeletedBy()},
	})
}

// alsoDeletedBy is the kind's own controller, which acts by the native field, as it is in the file
// or as admission fills it in.
func (p *forecast) alsoDeletedBy() [][]string {
	facts := p.of.Facts
	text := ""
	if native := resolution.NativeDeletionOf(facts); native != nil {
		text = session.SettingText(native.Setting.Field(), native.Setting)
	}
	for _, filled := range p.filled {
		if !filled.DryRun && strings.HasSuffix(strings.Join(facts.Profile.TTL, "."), filled.Field) {
			text = filled.Field + " " + filled.Value
		}
	}
	if text == "" {
		return nil
	}
	return [][]string{{"   " + facts.Profile.NativeDeleter(), text + ", where that controller runs"}}
}
