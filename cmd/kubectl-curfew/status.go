package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/health"
)

// statusOptions are the flags of status.
type statusOptions struct {
	*connection
	output *output
}

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
webhook works is not known. A warning needs attention, and is no failure.`,
		Example: `  # Is everything as it should be?
  kubectl curfew status

  # In a script: wait until Curfew works
  until kubectl curfew status >/dev/null; do sleep 2; done

  # What is not ok
  kubectl curfew status -o jsonpath='{range .items[?(@.state!="ok")]}{.name}: {.message}{"\n"}{end}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return options.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	options.add(command.Flags())
	options.output.addFlags(command)
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

func (o *statusOptions) run(ctx context.Context, out, diagnostics io.Writer) error {
	now := o.now()
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	progress.say("reading the state of Curfew")
	w, err := o.open(ctx, now, overlay{}, nil)
	if err != nil {
		return err
	}
	report := health.Run(ctx, w, health.Options{Now: w.ServerTime(ctx, now), Version: version})
	progress.done()
	if print != nil {
		err = print(printed{document: listOf("CheckList", now, report.Checks, report.Notes)}, out)
	} else {
		err = o.print(report, out)
	}
	if err != nil {
		return err
	}
	printNotes(report.Notes, diagnostics)
	switch report.Worst() {
	case health.Failed:
		return errBadNews
	case health.Unknown:
		return errors.New("whether the controller and the webhook work is not known: ask with more permissions")
	}
	return nil
}

func (o *statusOptions) print(report *health.Report, out io.Writer) error {
	table := newTable("CHECK", "STATE", "MESSAGE")
	for _, check := range report.Checks {
		addRow(table, nil, check.Name, string(check.State), check.Message)
	}
	return printTable(table, printers.PrintOptions{NoHeaders: o.output.noHeaders}, out)
}
