package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	exitOK      = 0
	exitBadNews = 1
	exitUsage   = 2
)

// errBadNews ends a command that has already printed what is wrong.
var errBadNews = errors.New("bad news")

// errDeclined ends a command whose question was answered with no.
var errDeclined = errors.New("nothing was changed")

// root is the command line.
func root(env environment) *cobra.Command {
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
	command.SetUsageFunc(usageWithout(command.UsageFunc()))
	command.AddCommand(
		expiringCommand(env), explainCommand(env), extendCommand(env), expireNowCommand(env), keepCommand(env),
		statusCommand(env), pauseCommand(env), resumeCommand(env), lintCommand(env), defaultsCommand(env), previewCommand(env), approveCommand(env), reportCommand(env), testCommand(env),
		tallyCommand(env), convertCommand(), uninstallCommand(env), completionCommand(), versionCommand(), optionsCommand(),
	)
	command.CompletionOptions.DisableDefaultCmd = true // Ours has kubectl, too.
	return command
}

// run executes a command line and returns the exit status.
func run(ctx context.Context, command *cobra.Command) int {
	err := command.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errBadNews):
		return exitBadNews
	default:
		for line := range strings.Lines(err.Error() + "\n") { // Joined errors have a line each.
			fmt.Fprint(command.ErrOrStderr(), "error: ", line)
		}
		if errors.Is(err, errDeclined) {
			return exitBadNews
		}
		return exitUsage
	}
}
