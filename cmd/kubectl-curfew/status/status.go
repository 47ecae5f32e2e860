// Package status prints whether the installation of Curfew is healthy, by package health.
package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/health"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/lifetime"
)

// statusOptions are the flags of status.
type statusOptions struct {
	*session.Connection
	wait    bool
	timeout time.Duration
}

// checkAgain is how often status --wait checks.
const checkAgain = 2 * time.Second

// Command is kubectl curfew status.
func Command(env console.Environment) *cobra.Command {
	options := &statusOptions{Connection: session.NewConnection(env, "table")}
	options.Output.Nameless = true
	command := &cobra.Command{
		Use:   "status [flags]",
		Short: "Check whether Curfew is installed, runs and does its work",
		Long: `Check whether Curfew is installed, runs and does its work. It also
reports the backlog, pauses, missing permissions, stalled cleanup policies, and
whether Kubernetes' own TTL controller runs beside Curfew.

It needs no more than read access, and names what you may not read. If you may
create Namespaces, it creates one in a dry run to see whether the API server
calls the webhook; nothing is stored.

Exit status: 0 no check failed, 1 one failed, 2 whether the controller or the
webhook works is not known. A warning needs attention, but does not fail. With
--wait it is 1 at the timeout, and the last line names what still fails: a
check, or an answer of the API server.`,
		Example: `  # Is everything as it should be?
  kubectl curfew status

  # In a script: wait until Curfew works
  kubectl curfew status --wait --timeout 2m

  # Only the checks that are not ok
  kubectl curfew status -o jsonpath='{range .items[?(@.state!="ok")]}{.name}: {.message}{"\n"}{end}'`,
		Args: cobra.NoArgs,
		RunE: options.Runs(options.run),
	}
	flags := command.Flags()
	flags.BoolVar(&options.wait, "wait", false, "check again until the exit status is 0")
	flags.DurationVar(&options.timeout, "timeout", 5*time.Minute, "how long --wait waits before it prints the last result")
	options.AddTo(command, nil)
	return command
}

func (o *statusOptions) run(ctx context.Context, call *session.Call) error {
	call.Progress.Say("reading the state of Curfew")
	report, missing, err := o.check(ctx, call.Progress)
	if err != nil {
		return err
	}
	call.Progress.Done()
	if report == nil {
		report = &health.Report{} // No round had an answer.
	}
	if call.Print != nil {
		err = call.Print(console.Printed{Document: console.ListOf("CheckList", o.Now(), report.Checks, report.Notes)}, call.Out)
	} else {
		table := console.NewTable("CHECK", "STATE", "MESSAGE")
		for _, check := range report.Checks {
			console.AddRow(table, nil, check.Name, string(check.State), check.Message)
		}
		err = console.PrintTable(table, printers.PrintOptions{NoHeaders: o.Output.NoHeaders}, call.Out)
	}
	if err != nil {
		return err
	}
	console.PrintNotes(report.Notes, call.Diagnostics)
	if missing != "" {
		fmt.Fprintf(call.Diagnostics, "error: not good within %s: %s\n", lifetime.FormatDuration(o.timeout), missing)
		return console.ErrBadNews
	}
	switch report.Worst() {
	case health.Failed:
		return console.ErrBadNews
	case health.Unknown:
		return errors.New("whether the controller and the webhook work is not known: ask with more permissions")
	}
	return nil
}

// check makes all checks. With --wait it makes them again until the result is good. At the timeout
// it returns the last result and the checks that are not OK. A round without an answer is no reason
// to give up: the API server may be away for a moment.
func (o *statusOptions) check(ctx context.Context, progress *console.Progress) (report *health.Report, missing string, err error) {
	if !o.wait {
		report, err = o.once(ctx)
		return report, "", err
	}
	within, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	missing = "no answer"
	for {
		last, err := o.once(within)
		unusable := (*session.UnusableError)(nil)
		switch {
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case errors.As(err, &unusable):
			return nil, "", err
		case within.Err() != nil: // Cut short, the round says nothing.
		case err != nil:
			missing = console.OneLine(err.Error())
		case last.Worst() == health.OK:
			return last, "", nil
		default:
			report, missing = last, last.Missing()
		}
		progress.Say("waiting until all checks are good")
		select {
		case <-within.Done():
			return report, missing, ctx.Err()
		case <-time.After(checkAgain):
		}
	}
}

// once makes all checks.
func (o *statusOptions) once(ctx context.Context) (*health.Report, error) {
	now := o.Now()
	w, err := o.Open(ctx, now, session.Overlay{}, nil)
	if err != nil {
		return nil, err
	}
	return health.Run(ctx, w, w.ServerTime(ctx, now)), nil
}
