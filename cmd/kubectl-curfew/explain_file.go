package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

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
	// unknown means that its namespace is not known.
	unknown bool
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
	said := slices.Concat(notes(), unknownNamespaces(all), o.unreviewed(ctx, all, options.Rules.Controller.Protect))
	if print != nil {
		return print(forecastData(all, options.Now, said), out)
	}
	printNotes(said, diagnostics)
	return writeForecasts(all, out)
}

// unknownNamespaces are notes about the namespaces whose settings may change the answer.
func unknownNamespaces(all []*forecast) []string {
	var out []string
	for _, one := range all {
		note := fmt.Sprintf("namespace %q is not known: its defaults and bounds may change the answer", one.of.Facts.Namespace)
		if one.unknown && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
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

// maxCanaries is about how many namespaces explain -f asks whether admission works there.
const maxCanaries = 10

// unreviewed are notes about namespaces whose objects the API server does not send to Curfew, or
// may not. The forecasts are complete without them: an error is a note, too.
func (o *explainOptions) unreviewed(ctx context.Context, all []*forecast, protect []string) (notes []string) {
	if o.from.offline {
		return nil
	}
	said := &collectedWarnings{}
	clients, err := o.connect(o.config, said)
	if err != nil {
		return []string{err.Error()}
	}
	asks, asked := &canary{objects: clients.Objects, said: said, left: protect}, map[string]bool{"": true}
	more := map[string]bool{}
	for _, one := range all {
		namespace := one.of.Facts.Namespace
		if asked[namespace] {
			continue
		}
		if len(asked) > maxCanaries {
			more[namespace] = true
			continue
		}
		asked[namespace] = true
		answer, why, err := asks.reviewed(ctx, namespace)
		switch {
		case err != nil:
			notes = append(notes, oneLine(err.Error()))
		case answer == rules.No:
			notes = append(notes, why+": nothing is filled in or rejected until it does; kubectl curfew status shows why")
		case answer == rules.Unknown && !one.unknown:
			notes = append(notes, why)
		}
	}
	if len(more) > 0 {
		notes = append(notes, fmt.Sprintf("whether the API server calls Curfew's webhook is not known for %s more: it is asked about %d", count(len(more), "namespace"), maxCanaries))
	}
	return notes
}

func forecastOf(ctx context.Context, linter *lint.Linter, document *lint.Document, options lint.Options) (*forecast, error) {
	of, known, err := linter.Explain(ctx, document)
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
	out := &forecast{explained: &explained{kind: kind, of: of, now: options.Now}, file: document.File, line: document.Line, filled: judged.Defaults, unknown: !known}
	for i := range judged.Findings {
		if finding := &judged.Findings[i]; finding.Severity == policy.Deny {
			out.rejected = append(out.rejected, finding.Finding.String())
		}
	}
	return out, nil
}
