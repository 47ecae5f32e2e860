package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/webhook/lint"
)

// fileOptions are the flags of explain -f.
type fileOptions struct {
	files     []string
	recursive bool
	offline   bool
}

func (o *fileOptions) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or directory with manifests to explain, or - for standard input; may be given more than once")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "with -f, read the directories below as well")
	flags.BoolVar(&o.offline, "offline", false, "with -f, ask no cluster: only the manifests themselves apply")
}

// forecast is what would become of one object of a manifest, if it were created now.
type forecast struct {
	*explained
	file string
	line int
	// rejected are the reasons for which admission would reject it.
	rejected []string
	filled   []policy.Default
}

// runFiles explains the objects of manifests, by the cluster's settings and those among the
// manifests.
func (o *explainOptions) runFiles(ctx context.Context, in io.Reader, out, diagnostics io.Writer) error {
	if len(o.selection.Args) > 0 || o.selection.Selector != "" || o.selection.All || o.selection.Everywhere {
		return errors.New("-f explains the objects of manifests: leave KIND, -l, --all and -A out")
	}
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	files, err := listFiles(o.from.files, o.from.recursive, nil, in)
	if err != nil {
		return err
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	options, notes, err := o.context(ctx, progress)
	if err != nil {
		return err
	}
	linter, err := lint.NewLinter(ctx, options)
	if err != nil {
		return err
	}
	manifests := newManifests(files)
	if err := addAll(ctx, linter, manifests, progress); err != nil {
		return err
	}
	if len(manifests.unreadable) > 0 {
		return manifests.unreadable[0]
	}
	var all []*forecast
	if err := manifests.each(ctx, progress, func(document *lint.Document) error {
		if document.Kind().Group == policy.Group {
			return nil // It is context for the others.
		}
		one, err := forecastOf(ctx, linter, document, options)
		all = append(all, one)
		return err
	}); err != nil {
		return err
	}
	progress.done()
	if len(all) == 0 {
		return errors.New("there is no object in what -f names: give at least one")
	}
	if print != nil {
		return print(forecastData(all, options.Now, notes()), out)
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := one.text(out); err != nil {
			return err
		}
	}
	printNotes(notes(), diagnostics)
	return nil
}

// context is what the manifests are explained by: the cluster, or without one the built-in profiles
// alone.
func (o *explainOptions) context(ctx context.Context, progress *progress) (options lint.Options, notes func() []string, err error) {
	own, schemas, err := builtin()
	if err != nil {
		return options, nil, err
	}
	options = lint.Options{Source: platform.Offline{Platform: own}, Schemas: schemas, Now: o.now()}
	options.Rules.Controller = policy.Surroundings{Protect: policy.DefaultProtect()}
	if o.from.offline {
		if len(o.with) > 0 {
			return options, nil, errors.New("--with needs a cluster: with --offline, name the file with -f as well")
		}
		options.Namespace = o.overrides.Context.Namespace
		return options, func() []string { return nil }, nil
	}
	with, err := readOverlay(ctx, o.with)
	if err != nil {
		return options, nil, err
	}
	if options.Namespace, err = o.namespace(); err != nil {
		return options, nil, err
	}
	w, err := o.open(ctx, options.Now, with, progress)
	if err != nil {
		return options, nil, err
	}
	options.Source = w.Source()
	options.Rules = rules.Options{KyvernoLabel: w.Controller.Alias, Controller: w.Controller.Surroundings()}
	return options, w.Notes, nil
}

func forecastOf(ctx context.Context, linter *lint.Linter, document *lint.Document, options lint.Options) (*forecast, error) {
	of, err := linter.Explain(ctx, document)
	if err != nil {
		return nil, err
	}
	judged, err := linter.Judge(ctx, document)
	if err != nil {
		return nil, err
	}
	kind := world.Kind{GroupVersionKind: of.Facts.Profile.Kind, Resource: of.Facts.Profile.Resource, Profile: of.Facts.Profile}
	if of.Facts.Profile.Unknown {
		kind.GroupVersionKind = document.Kind()
	}
	out := &forecast{explained: &explained{kind: kind, of: of, now: options.Now}, file: document.File, line: document.Line, filled: judged.Defaults}
	for i := range judged.Findings {
		if finding := &judged.Findings[i]; finding.Severity == policy.Deny {
			out.rejected = append(out.rejected, finding.Finding.String())
		}
	}
	return out, nil
}

// name of the object, with its place.
func (p *forecast) name() string {
	out := p.kind.Name(p.of.Facts.Name)
	if p.of.Facts.Namespace != "" {
		out += " in namespace " + p.of.Facts.Namespace
	}
	return out + " (" + where(p.file, p.line) + ")"
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
		parts = append(parts, fmt.Sprintf("expires %s, created now, by label %s=%s", instant(verdict.Expiry, p.now.Location()), p.of.LabelKey, p.of.Facts.Labels[p.of.LabelKey]))
	}
	if value := p.of.Effective.Deadline; value.Set && value.Err == nil && !value.TTL.Never {
		parts = append(parts, fmt.Sprintf("is stopped once it was active for %s, by %s deadline%s", value.TTL, ownTTL(value.Source, "the"), fromSource(value.Source)))
	}
	if len(parts) == 0 {
		return "stays: nothing gives it a TTL, a TTL label or a deadline"
	}
	return strings.Join(parts, "; ")
}

// afterwards says what its TTL after finished does; "" without one.
func (p *forecast) afterwards() string {
	by := func(value policy.Value) string {
		return ", by " + ownTTL(value.Source, "the") + " TTL" + fromSource(value.Source)
	}
	say := func(value policy.Value, when string) string {
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
	fmt.Fprintf(out, "%s %s\n", oneLine(p.name()), oneLine(p.outlook()))
	filled := [][]string{}
	for _, each := range p.filled {
		filled = append(filled, []string{"   " + each.String()})
	}
	rejected := [][]string{}
	for _, each := range p.rejected {
		rejected = append(rejected, []string{"   " + each})
	}
	for _, part := range []struct {
		title string
		rows  [][]string
	}{
		{"Rejected because of", rejected},
		{"Filled in", filled},
		{"TTL after finished", levels(p.of.TTL, p.of.ByTTL)},
		{"TTL label", p.label()},
		{"Deadline", levels(p.of.Deadline, p.of.ByDeadline)},
		{"Bounds", p.bounds()},
	} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", part.title)
		if err := printAligned(out, part.rows); err != nil {
			return err
		}
	}
	return nil
}
