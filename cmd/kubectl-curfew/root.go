package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/approve"
	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
	"curfew.dev/curfew/cmd/kubectl-curfew/defaults"
	"curfew.dev/curfew/cmd/kubectl-curfew/expiring"
	"curfew.dev/curfew/cmd/kubectl-curfew/explain"
	"curfew.dev/curfew/cmd/kubectl-curfew/lint"
	"curfew.dev/curfew/cmd/kubectl-curfew/pause"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/status"
	"curfew.dev/curfew/cmd/kubectl-curfew/tally"
	"curfew.dev/curfew/cmd/kubectl-curfew/testcases"
	"curfew.dev/curfew/cmd/kubectl-curfew/uninstall"
	"curfew.dev/curfew/cmd/kubectl-curfew/unused"
)

// root is the command line.
func root(env console.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-curfew",
		Short: "See what Curfew deletes, when and why",
		Long: `Show what will be deleted, when, which setting decided it, and what blocks it;
extend, expire or keep objects; check manifests.

The commands ask only the API server, with your own permissions. No service of
Curfew has to be reachable. Times are in the time zone of your machine.

Exit status: 0 all is well, 1 the answer is bad news (lint found errors, an
object could not be changed, you answered no), 2 there is no answer: flags,
files or objects that cannot be used.`,
		Example: `  # What is deleted in the next 6 hours, in all namespaces?
  kubectl curfew expiring -A --within 6h

  # When is this Job deleted, why, and what blocks it?
  kubectl curfew explain job/build -n ci

  # Keep it for another day
  kubectl curfew extend job/build -n ci --by 1d

  # Check manifests before you apply them
  kubectl curfew lint -f manifests/`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl curfew"},
	}
	command.SetUsageFunc(session.UsageWithout(command.UsageFunc()))
	command.AddCommand(
		expiring.Command(env), explain.Command(env), change.ExtendCommand(env), change.ExpireNowCommand(env), change.KeepCommand(env),
		status.Command(env), pause.Command(env), pause.ResumeCommand(env), lint.Command(env), defaults.Command(env),
		preview.Command(env), approve.Command(env), report.Command(env), testcases.Command(env), tally.Command(env),
		unused.Command(env), convert.Command(), uninstall.Command(env), completionCommand(), versionCommand(), session.OptionsCommand(),
	)
	command.CompletionOptions.DisableDefaultCmd = true // Ours has kubectl, too.
	return command
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kubectl curfew version %s\ncommit %s\n", version, commit)
			return err
		},
	}
}
