package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
)

// tallyOptions are the flags of tally.
type tallyOptions struct {
	*connection
	everywhere bool
	output     *output
}

func tallyCommand(env environment) *cobra.Command {
	options := tallyOptions{connection: newConnection(env), output: newOutput("table", "wide")}
	command := &cobra.Command{
		Use:   "tally [NAME] [flags]",
		Short: "Show what PodTallies have counted, and what they wait for",
		Long: `Show how many Pods each PodTally has counted: those that have not finished, and
those that succeeded and failed, including those that were deleted since.
UNCOUNTED are finished Pods that are being counted; Curfew keeps them meanwhile.

PER HOUR is the average since the tally began to count. With -o wide also since
when it counts, how long counted Pods stay, and its conditions.`,
		Example: `  # What is counted in namespace ci?
  kubectl curfew tally -n ci

  # In all namespaces, with conditions
  kubectl curfew tally -A -o wide

  # How many have failed?
  kubectl curfew tally prow-builds -n ci -o jsonpath='{.items[0].failed}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: options.completeTallies(),
	}
	options.add(command.Flags())
	command.Flags().BoolVarP(&options.everywhere, "all-namespaces", "A", false, "all namespaces")
	options.output.addFlags(command)
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

func (o *tallyOptions) run(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	namespace, err := o.namespace()
	switch {
	case err != nil:
		return err
	case o.everywhere && len(args) > 0:
		return errors.New("a PodTally cannot be named across all namespaces: give one namespace with -n")
	case o.everywhere:
		namespace = ""
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	progress.say("reading PodTallies")
	now := o.now()
	w, err := o.open(ctx, now, overlay{}, progress)
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	tallies, err := w.Tallies(ctx, namespace, name)
	if err != nil {
		return err
	}
	answer := &tallyAnswer{tallies: tallies, now: now, everywhere: o.everywhere, wide: o.output.format == "wide"}
	progress.done()
	if print != nil {
		return print(answer.printed(w.Notes()), out)
	}
	if len(tallies) == 0 {
		where := "in namespace \"" + namespace + "\""
		if o.everywhere {
			where = "in any namespace"
		}
		_, err := io.WriteString(diagnostics, "There is no PodTally "+where+".\n")
		return err
	}
	err = answer.table(o.output.noHeaders, out)
	printNotes(w.Notes(), diagnostics)
	return err
}

// completeTallies suggests the PodTallies of the namespace.
func (c *connection) completeTallies() cobra.CompletionFunc {
	return c.completeFrom(func(ctx context.Context, w *world.World, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		namespace, err := c.namespace()
		if err != nil || len(args) > 0 {
			return nil, noFiles
		}
		names, _ := w.NamesOf(ctx, v1alpha1.PodTallies, namespace) // A shell has no place for an error.
		return names, noFiles
	})
}
