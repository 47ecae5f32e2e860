package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/health"
	"curfew.dev/curfew/policy"
)

// statusOptions are the flags of status.
type statusOptions struct {
	*connection
	output  *output
	wait    bool
	timeout time.Duration
}

// checkAgain is how often status --wait checks.
const checkAgain = 2 * time.Second

func statusCommand(env environment) *cobra.Command {
	options := statusOptions{connection: newConnection(env), output: newOutput("table")}
	options.output.nameless = true
	command := &cobra.Command{
		Use:   "status [flags]",
		Short: "Check whether Curfew is installed, runs and does its work",
		Long: `Check whether Curfew is installed, runs and does its work: its kinds, the
controller and the webhook, the serving certificate, the webhook configurations,
versions, switches, the backlog, pauses, missing permissions and stalled cleanup
policies, and whether Kubernetes' own TTL controller runs beside it.

It needs no more than read access, and names what you may not read. If you may
create Namespaces, it creates one in a dry run to see whether the API server
calls the webhook; nothing is stored.

Exit status: 0 no check failed, 1 one failed, 2 whether the controller or the
webhook works is not known. A warning needs attention, and is no failure. With
--wait it is 1 at the timeout, and the last line says what is still missing: a
check, or an answer of the API server.`,
		Example: `  # Is everything as it should be?
  kubectl curfew status

  # In a script: wait until Curfew works
  kubectl curfew status --wait --timeout 2m

  # What is not ok
  kubectl curfew status -o jsonpath='{range .items[?(@.state!="ok")]}{.name}: {.message}{"\n"}{end}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return options.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	options.add(flags)
	flags.BoolVar(&options.wait, "wait", false, "check again until the exit status is 0")
	flags.DurationVar(&options.timeout, "timeout", 5*time.Minute, "how long --wait waits before it prints the last result")
	options.output.addFlags(command)
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

func (o *statusOptions) run(ctx context.Context, out, diagnostics io.Writer) error {
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	progress.say("reading the state of Curfew")
	report, missing, err := o.check(ctx, progress)
	if err != nil {
		return err
	}
	progress.done()
	if report == nil {
		report = &health.Report{} // No round had an answer.
	}
	if print != nil {
		err = print(printed{document: listOf("CheckList", o.now(), report.Checks, report.Notes)}, out)
	} else {
		err = o.print(report, out)
	}
	if err != nil {
		return err
	}
	printNotes(report.Notes, diagnostics)
	if missing != "" {
		fmt.Fprintf(diagnostics, "error: not good within %s: %s\n", policy.FormatDuration(o.timeout), missing)
		return errBadNews
	}
	switch report.Worst() {
	case health.Failed:
		return errBadNews
	case health.Unknown:
		return errors.New("whether the controller and the webhook work is not known: ask with more permissions")
	}
	return nil
}

// check makes all checks. With --wait it makes them again until the result is good. At the timeout
// it returns the last result, and what is still missing. A round without an answer is no reason to
// give up: the API server may be away for a moment.
func (o *statusOptions) check(ctx context.Context, progress *progress) (report *health.Report, missing string, err error) {
	if !o.wait {
		report, err = o.once(ctx)
		return report, "", err
	}
	within, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	missing = "no answer"
	for {
		last, err := o.once(within)
		unusable := (*unusableError)(nil)
		switch {
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case errors.As(err, &unusable):
			return nil, "", err
		case within.Err() != nil: // Cut short, the round says nothing.
		case err != nil:
			missing = oneLine(err.Error())
		case last.Worst() == health.OK:
			return last, "", nil
		default:
			report, missing = last, last.Missing()
		}
		progress.say("waiting until all checks are good")
		select {
		case <-within.Done():
			return report, missing, ctx.Err()
		case <-time.After(checkAgain):
		}
	}
}

// once makes all checks.
func (o *statusOptions) once(ctx context.Context) (*health.Report, error) {
	now := o.now()
	w, err := o.open(ctx, now, overlay{}, nil)
	if err != nil {
		return nil, err
	}
	return health.Run(ctx, w, health.Options{Now: w.ServerTime(ctx, now), Version: version}), nil
}

func (o *statusOptions) print(report *health.Report, out io.Writer) error {
	table := newTable("CHECK", "STATE", "MESSAGE")
	for _, check := range report.Checks {
		addRow(table, nil, check.Name, string(check.State), check.Message)
	}
	return printTable(table, printers.PrintOptions{NoHeaders: o.output.noHeaders}, out)
}
