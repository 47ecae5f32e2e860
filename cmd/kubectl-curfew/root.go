package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

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
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
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
	addGroup(command, "Look", expiring.Command(env), explain.Command(env), status.Command(env), unused.Command(env), tally.Command(env))
	addGroup(command, "Change", change.ExtendCommand(env), change.KeepCommand(env), change.ExpireNowCommand(env),
		pause.Command(env), pause.ResumeCommand(env))
	addGroup(command, "Policies", preview.Command(env), approve.Command(env), report.Command(env), testcases.Command(env),
		lint.Command(env), defaults.Command(env), convert.Command())
	addGroup(command, "Install and other", uninstall.Command(env), versionCommand(env), completionCommand(), session.OptionsCommand())
	command.SetHelpCommandGroupID("Install and other")
	command.CompletionOptions.DisableDefaultCmd = true // Ours has kubectl, too.
	return command
}

// addGroup adds commands that the help lists together.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, command := range commands {
		command.GroupID = title
	}
	root.AddCommand(commands...)
}

// versionTimeout is how long version waits for the API server.
const versionTimeout = 2 * time.Second

func versionCommand(env console.Environment) *cobra.Command {
	connection, client := session.NewConnection(env, "text"), false
	connection.Output.Nameless = true
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this plugin and of Curfew's controller",
		Long: `Print the versions of this plugin and of Curfew's controller. The latter is
left out with --client, and where it is not known within two seconds: the text
says why. -o json has clientVersion.version, clientVersion.commit and
controllerVersion.`,
		Example: `  # Is the controller of this release?
  kubectl curfew version

  # For a bug report, without a cluster
  kubectl curfew version --client -o yaml`,
		Args: cobra.NoArgs,
		RunE: connection.Runs(func(ctx context.Context, call *session.Call) error {
			out, line := map[string]any{"clientVersion": map[string]string{"version": version, "commit": commit}}, ""
			if !client {
				published, why := controllerVersion(ctx, call)
				if published != "" {
					out["controllerVersion"] = published
				}
				line = "controller version " + cmp.Or(published, "unknown: "+why) + "\n"
			}
			if call.Print != nil {
				return call.Print(console.Printed{Document: out}, call.Out)
			}
			_, err := fmt.Fprintf(call.Out, "kubectl curfew version %s\ncommit %s\n%s", version, commit, line)
			return err
		}),
	}
	command.Flags().BoolVar(&client, "client", false, "print the version of this plugin alone, and ask no cluster")
	connection.AddTo(command, nil)
	return command
}

// controllerVersion is the version that the controller publishes, or why it is not known.
func controllerVersion(ctx context.Context, call *session.Call) (published, why string) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	session.SetVerbosity(call.Verbosity)
	clients, err := call.Connect(call.Config, nil)
	if err != nil {
		return "", console.OneLine(err.Error())
	}
	controller, err := world.Settings(ctx, clients, call.CurfewNamespace)
	if network, ok := errors.AsType[*url.Error](err); ok {
		err = network.Err
	}
	if err != nil {
		return "", console.OneLine(err.Error())
	}
	return controller.Published[settings.Version], cmp.Or(controller.Unknown, "it publishes none")
}
