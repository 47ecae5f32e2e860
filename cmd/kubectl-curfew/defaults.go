package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// defaultsOptions are the flags of defaults.
type defaultsOptions struct {
	*connection
	output *output
}

func defaultsCommand(env environment) *cobra.Command {
	options := defaultsOptions{connection: newConnection(env), output: newOutput("table")}
	options.output.nameless = true // Kinds have no names.
	command := &cobra.Command{
		Use:   "defaults [NAMESPACE] [flags]",
		Short: "Show what new objects are given in a namespace, and which setting decides",
		Long: `Show, for each kind, what admission fills into a new object in a namespace: the
TTL after finished by outcome, the deadline and the TTL label, each with the
setting that decides, and the bounds that apply.

What the object itself sets comes first, and so does its training runtime. A
LifecyclePolicy that looks at the object (objectSelector, matchConditions,
expressions) is named and not evaluated; to see what it does to one object, use
"kubectl curfew explain". Settings that cannot be read are listed.`,
		Example: `  # What does a Job get in namespace ci?
  kubectl curfew defaults ci

  # For programs
  kubectl curfew defaults ci -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: options.completeNamespaces(),
	}
	options.add(command.Flags())
	options.output.addFlags(command)
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

func (o *defaultsOptions) run(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	name, err := o.namespace()
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if flag := o.overrides.Context.Namespace; flag != "" && flag != args[0] {
			return errors.New("-n names another namespace than the argument: give one of them")
		}
		name = args[0]
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	progress.say("reading the settings of namespace %s", name)
	now := o.now()
	w, err := o.open(ctx, now, overlay{}, progress)
	if err != nil {
		return err
	}
	namespace, err := w.Namespace(ctx, name)
	if err != nil {
		return err
	}
	kinds, err := w.Kinds()
	if err != nil {
		return err
	}
	answer := defaultsAnswer{namespace: namespace, notes: w}
	for _, kind := range kinds {
		if kind.ClusterScoped {
			continue
		}
		each, err := w.Defaults(ctx, kind, namespace, now)
		if err != nil {
			return err
		}
		if kind.Profile.Finishable() || each.LabelFrom != nil {
			answer.kinds = append(answer.kinds, each)
		}
	}
	progress.done()
	if print != nil {
		return print(printed{document: answer.data(now)}, out)
	}
	if err := answer.table(printers.PrintOptions{NoHeaders: o.output.noHeaders}, out); err != nil {
		return err
	}
	printNotes(answer.allNotes(), diagnostics)
	return nil
}

// defaultsAnswer is the answer of defaults.
type defaultsAnswer struct {
	namespace *policy.NamespacePolicy
	kinds     []*world.Defaults
	notes     *world.World
}

func (a *defaultsAnswer) table(options printers.PrintOptions, out io.Writer) error {
	table := newTable("KIND", "TTL AFTER SUCCESS", "TTL AFTER FAILURE", "DEADLINE", "TTL LABEL", "BOUNDS")
	for _, each := range a.kinds {
		label := "-"
		if each.LabelFrom != nil {
			label = "unusable"
			if each.Label != "" {
				label = each.Label
			}
			label += " (" + each.LabelFrom.Source.String() + ")"
		}
		var bounds []string
		for _, bound := range each.Bounds {
			bounds = append(bounds, strings.TrimPrefix(bound.Field(), policy.Prefix)+" "+textOf(bound)+" ("+bound.Source.String()+")")
		}
		addRow(table, nil, each.Kind.GroupResource().String(), valueText(each.Succeeded), valueText(each.Failed), valueText(each.Deadline), label, orDash(strings.Join(bounds, ", ")))
	}
	return printTable(table, options, out)
}

func textOf(setting *policy.Setting) string {
	if setting.Err != nil {
		return "unusable"
	}
	return setting.TTL.String()
}

// valueText is a default with its source, "-" for none.
func valueText(value policy.Value) string {
	switch {
	case !value.Set:
		return "-"
	case value.Err != nil:
		return "unusable (" + value.Source.String() + ")"
	default:
		return value.TTL.String() + " (" + value.Source.String() + ")"
	}
}

// unusable are the settings that cannot be used, each once.
func (a *defaultsAnswer) unusable() []*policy.Setting {
	var out []*policy.Setting
	for _, each := range a.kinds {
		for _, one := range each.Unusable {
			if !slices.ContainsFunc(out, func(other *policy.Setting) bool { return other.Path == one.Path && other.Source == one.Source }) {
				out = append(out, one)
			}
		}
	}
	return out
}

// allNotes say what the table does not.
func (a *defaultsAnswer) allNotes() []string {
	var out []string
	switch a.namespace.Mode {
	case policy.ModeDryRun:
		out = append(out, fmt.Sprintf("namespace %q is in dry-run: none of this is filled in, admission only announces it", a.namespace.Name))
	case policy.ModeWarn:
		out = append(out, fmt.Sprintf("namespace %q has mode warn: values outside its own bounds are warned about, not rejected", a.namespace.Name))
	}
	for _, one := range a.unusable() {
		out = append(out, fmt.Sprintf("%s of %s cannot be used: %s", one.Path, one.Source.Phrase(), one.Err))
	}
	depends := map[string][]string{}
	for _, each := range a.kinds {
		for _, what := range each.Depends {
			depends[what] = append(depends[what], each.Kind.GroupResource().String())
		}
	}
	for _, what := range sortedKeys(depends) {
		out = append(out, fmt.Sprintf("%s may decide otherwise for single objects of %s", what, strings.Join(depends[what], ", ")))
	}
	return append(out, a.notes.Notes()...)
}
