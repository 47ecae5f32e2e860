package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/uninstall"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	*connection
	keepCRDs, yes bool
	dryRun        string
	timeout       time.Duration
}

func uninstallCommand(env environment) *cobra.Command {
	options := uninstallOptions{connection: newConnection(env)}
	command := &cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Remove Curfew from the cluster, in an order that blocks nothing",
		Long: `Remove Curfew from the cluster: its webhook configurations, the controller and
the webhook with their permissions, the finalizers of PodTallies on Pods, the
CRDs, and its Namespace unless something else is in it. It works for
install.yaml, kustomize and the Helm chart, also when Curfew does not run any
more, and can be repeated after an error.

The CRDs take all policies, PodTallies and reports with them. The command lists
how many there are, and asks. --keep-crds keeps them; they have no effect until
Curfew is installed again.

Your own objects keep what is written on them: annotations and labels of
curfew.dev have no effect then, and Kubernetes goes on to act on
ttlSecondsAfterFinished, which Curfew may have filled in.

It takes the rights of a cluster administrator. Before it deletes anything, a
dry run shows whether all of it is allowed.

Exit status: 0 nothing is left that blocks, 1 something is, 2 not all could be
removed.`,
		Example: `  # What would be removed?
  kubectl curfew uninstall --dry-run

  # Keep a copy of all policies, and remove everything
  kubectl get lifecyclepolicies,kindprofiles,cleanuppolicies.curfew.dev,clustercleanuppolicies.curfew.dev,podtallies -A -o yaml > curfew-backup.yaml
  kubectl curfew uninstall

  # Keep policies, PodTallies and reports in the cluster
  kubectl curfew uninstall --keep-crds`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return options.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	options.add(command.Flags())
	flags := command.Flags()
	flags.BoolVar(&options.keepCRDs, "keep-crds", false, "keep the CRDs, and with them policies, PodTallies and reports")
	flags.StringVar(&options.dryRun, "dry-run", "none", "none, client or server: client and server show what would be removed, and whether you may, and remove nothing")
	flags.Lookup("dry-run").NoOptDefVal = "client"
	flags.BoolVarP(&options.yes, "yes", "y", false, "remove without asking")
	flags.DurationVar(&options.timeout, "timeout", 2*time.Minute, "how long to wait for what was deleted to be gone, each time")
	options.completeFlags(command, map[string][]string{"dry-run": {"client", "none", "server"}})
	return command
}

func (o *uninstallOptions) run(ctx context.Context, in io.Reader, out, diagnostics io.Writer) error {
	setVerbosity(o.verbosity)
	if !slices.Contains([]string{"none", "client", "server"}, o.dryRun) {
		return fmt.Errorf("--dry-run=%s: give none, client or server", o.dryRun)
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	clients, err := o.connect(o.config, progress)
	if err != nil {
		return err
	}
	progress.say("looking for what Curfew consists of")
	found, err := uninstall.Find(ctx, clients, uninstall.Options{
		Namespace: o.curfewNamespace, KeepCRDs: o.keepCRDs, Timeout: o.timeout, Say: progress.say,
		Done: func(what string) { fmt.Fprintln(out, what) },
	})
	if err != nil {
		return err
	}
	if found.Empty() {
		fmt.Fprintln(progress, "Curfew is not installed: nothing of it was found.")
		return nil
	}
	if err := found.Check(ctx); err != nil {
		return fmt.Errorf("%w\nnothing was removed: it takes the rights of a cluster administrator", err)
	}
	progress.done()
	o.warn(found, diagnostics)
	if o.dryRun != "none" {
		for _, what := range found.Plan() {
			fmt.Fprintln(out, what, "(server dry run)")
		}
		return nil
	}
	if !o.yes {
		if err := o.confirm(ctx, fmt.Sprintf("Remove Curfew from %s?", o.cluster()), in, diagnostics); err != nil {
			return err
		}
	}
	progress.again()
	if err := found.Remove(ctx); err != nil {
		return err
	}
	progress.say("looking whether anything is left")
	left, err := found.Left(ctx)
	if err != nil {
		return err
	}
	progress.done()
	return o.conclude(found, left, diagnostics)
}

// cluster is the one that the configuration names, for the question.
func (o *uninstallOptions) cluster() string {
	if config, err := o.config.ClientConfig(); err == nil {
		return config.Host
	}
	return "this cluster"
}
