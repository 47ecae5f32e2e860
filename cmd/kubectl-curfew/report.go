package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// reportOptions are the flags of report.
type reportOptions struct {
	*connection
	run    string
	output *output
}

func reportCommand(env environment) *cobra.Command {
	options := reportOptions{connection: newConnection(env), output: newOutput("text", "wide")}
	options.output.nameless = true // Most of the objects are gone.
	command := &cobra.Command{
		Use:   "report (NAME | KIND/NAME) [flags]",
		Short: "Show what the runs of a cleanup policy deleted",
		Long: `Show what the last run of a cleanup policy deleted, or with dryRun would delete:
numbers by kind and namespace, what was skipped and why, and with -o wide each
object with its result.

NAME is a CleanupPolicy of the namespace or a ClusterCleanupPolicy. Curfew keeps
the reports of the last five runs, and of a run the names of up to 10,000
objects.`,
		Example: `  # What did the last run delete?
  kubectl curfew report nightly

  # Each object, of an earlier run
  kubectl curfew report nightly --run 20261223-0200-5f0f4c1e -o wide

  # What could not be deleted, and why
  kubectl curfew report nightly -o jsonpath='{range .items[?(@.result=="Failed")]}{.object.name}: {.message}{"\n"}{end}'`,
		Args: onePolicy,
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.execute(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: options.completePolicies(),
	}
	options.add(command.Flags())
	command.Flags().StringVar(&options.run, "run", "", "id of the run, by default the last one")
	options.output.addFlags(command)
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

// onePolicy is the argument of commands about one cleanup policy.
func onePolicy(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one cleanup policy: NAME, cleanuppolicy/NAME or clustercleanuppolicy/NAME")
	}
	return nil
}

func (o *reportOptions) execute(ctx context.Context, reference string, out, diagnostics io.Writer) error {
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	progress.say("reading the reports of %s", reference)
	now := o.now()
	w, err := o.open(ctx, now, overlay{}, progress)
	if err != nil {
		return err
	}
	policy, err := w.CleanupPolicy(ctx, reference, namespace)
	if err != nil {
		return err
	}
	answer, err := readReport(ctx, w, policy, o.run, now)
	if err != nil {
		return err
	}
	progress.done()
	if print != nil {
		return print(printed{document: answer.data(now)}, out)
	}
	return answer.print(out, now, o.output.format == "wide", o.output.noHeaders)
}

// readReport reads the report of a run, by default of the last one.
func readReport(ctx context.Context, w *world.World, policy *world.CleanupPolicy, run string, now time.Time) (*reportAnswer, error) {
	pages, err := w.CleanupReports(ctx, policy)
	if err != nil {
		return nil, err
	}
	answer := &reportAnswer{policy: policy, run: run}
	last := policy.Status.LastRun
	if run == "" && last != nil {
		answer.run = last.ID
	}
	for _, page := range pages {
		if len(answer.runs) == 0 || answer.runs[len(answer.runs)-1] != page.Run {
			answer.runs = append(answer.runs, page.Run)
		}
		if page.Run == answer.run {
			answer.pages = append(answer.pages, page)
		}
	}
	if last != nil && last.ID == answer.run {
		answer.last = last
	}
	switch {
	case answer.run == "":
		return nil, fmt.Errorf("%s has not run yet%s", policy, nextRun(policy, now))
	case answer.last == nil && len(answer.pages) == 0:
		return nil, fmt.Errorf("%s has no report of run %q: runs with one are %s", policy, answer.run, orNone(answer.runs))
	}
	return answer, nil
}
