// Command curfew is Curfew's server: the admission webhooks, the controller, or both in one
// process.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // The image has no time zones.

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"curfew.dev/curfew/controller/settings"
)

func main() {
	if err := root().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "curfew:", err)
		os.Exit(1)
	}
}

// root is the command line. Each subcommand is options → validate → run.
func root() *cobra.Command {
	command := &cobra.Command{
		Use:           "curfew",
		Short:         "Lifecycle admission and timed cleanup for Kubernetes",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(
		serve("webhook", "Serve the admission webhooks", parts{webhook: true}),
		serve("controller", "Delete due objects", parts{controller: true}),
		serve("all", "Serve the webhooks and run the controller in one process", parts{webhook: true, controller: true}),
		waits(),
		&cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) {
				fmt.Fprintf(cmd.OutOrStdout(), "curfew %s\ncommit %s\n", version, commit)
			},
		},
	)
	return command
}

func serve(use, short string, parts parts) *cobra.Command {
	options := defaultOptions()
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.validate(); err != nil {
				return err
			}
			options.published = settings.Of(cmd.Flags())
			return run(cmd.Context(), options, parts)
		},
	}
	options.addCommon(command.Flags())
	if parts.webhook {
		options.addWebhook(command.Flags())
	}
	if parts.controller {
		options.addController(command.Flags())
	}
	refuseRemoved(command.Flags())
	return command
}
