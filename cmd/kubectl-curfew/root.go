package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	exitOK      = 0
	exitBadNews = 1
	exitUsage   = 2
)

// errBadNews ends a command whose output already says what is wrong.
var errBadNews = errors.New("bad news")

// root is the command line.
func root(around surroundings) *cobra.Command {
	command := &cobra.Command{
		Use:           "kubectl-curfew",
		Short:         "Ask Curfew what happens to your objects, and when",
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl curfew"},
	}
	command.AddCommand(
		expiringCommand(around), explainCommand(around), extendCommand(around), expireNowCommand(around), cancelCommand(around),
		lintCommand(around.now), versionCommand(),
	)
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
		fmt.Fprintln(command.ErrOrStderr(), "kubectl curfew:", err)
		return exitUsage
	}
}
