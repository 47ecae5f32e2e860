package uninstall

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/wellknown"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	*session.Connection
	keepCRDs, yes bool
	dryRun        console.DryRun
	timeout       time.Duration
}

// Command is kubectl curfew uninstall.
func Command(env console.Environment) *cobra.Command {
	options := &uninstallOptions{Connection: session.NewConnection(env)}
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

Your own objects keep their annotations and labels of curfew.dev, which have no
effect then, and Kubernetes goes on to act on
ttlSecondsAfterFinished, which Curfew may have filled in.

It takes the rights of a cluster administrator. Before it deletes anything, a
dry run shows whether all of it is allowed.

Exit status: 0 nothing is left that blocks, 1 something is, 2 not all could be
removed.`,
		Example: `  # What would be removed?
  kubectl curfew uninstall --dry-run

  # Keep a copy of all policies, and remove everything
  kubectl get lifecyclepolicies,kindprofiles,cleanuppolicies.curfew.dev,clustercleanuppolicies.curfew.dev,podtallies ` +
			`-A -o yaml > curfew-backup.yaml
  kubectl curfew uninstall

  # Keep policies, PodTallies and reports in the cluster
  kubectl curfew uninstall --keep-crds`,
		Args: cobra.NoArgs,
		RunE: options.Runs(options.run),
	}
	flags := command.Flags()
	flags.BoolVar(&options.keepCRDs, "keep-crds", false, "keep the CRDs, and with them policies, PodTallies and reports")
	flags.StringVar((*string)(&options.dryRun), "dry-run", "none",
		"none, client or server: client and server show what would be removed, and whether you may, and remove nothing")
	flags.Lookup("dry-run").NoOptDefVal = "client"
	flags.BoolVarP(&options.yes, "yes", "y", false, "remove without asking")
	flags.DurationVar(&options.timeout, "timeout", 2*time.Minute, "how long to wait for what was deleted to be gone, each time")
	options.AddTo(command, map[string][]string{"dry-run": console.DryRuns})
	return command
}

func (o *uninstallOptions) run(ctx context.Context, call *session.Call) error {
	progress, diagnostics := call.Progress, call.Diagnostics
	session.SetVerbosity(o.Verbosity)
	if err := o.dryRun.Check(); err != nil {
		return err
	}
	clients, err := o.Connect(o.Config, progress)
	if err != nil {
		return err
	}
	progress.Say("looking for what Curfew consists of")
	found, err := Find(ctx, clients, Options{
		Namespace: o.CurfewNamespace, KeepCRDs: o.keepCRDs, Timeout: o.timeout, Say: progress.Say,
		Done: func(what string) { fmt.Fprintln(call.Out, what) },
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
	progress.Done()
	o.warn(found, diagnostics)
	if o.dryRun != "none" {
		for _, what := range found.Plan() {
			fmt.Fprintln(call.Out, what, "(server dry run)")
		}
		return nil
	}
	if !o.yes {
		if err := o.Confirm(ctx, fmt.Sprintf("Remove Curfew from %s?", o.cluster()), call.In, diagnostics); err != nil {
			return err
		}
	}
	progress.Again()
	if err := found.Remove(ctx); err != nil {
		return err
	}
	progress.Say("looking whether anything is left")
	left, err := found.Left(ctx)
	if err != nil {
		return err
	}
	progress.Done()
	return o.conclude(found, left, diagnostics)
}

// cluster is the one that the configuration names, for the question.
func (o *uninstallOptions) cluster() string {
	if config, err := o.Config.ClientConfig(); err == nil {
		return config.Host
	}
	return "this cluster"
}

// warn lists before a removal the objects that are lost, released, or may come back.
func (o *uninstallOptions) warn(found *Installation, diagnostics io.Writer) {
	if len(found.Losses) > 0 {
		if o.keepCRDs {
			fmt.Fprintln(diagnostics, "These are kept. They have no effect until Curfew is installed again:")
		} else {
			fmt.Fprintln(diagnostics, "These are deleted with the CRDs, which cannot be undone. "+
				"Save them with kubectl get -A -o yaml, or pass --keep-crds:")
		}
		for _, loss := range found.Losses {
			fmt.Fprintf(diagnostics, "  %s\n", loss)
		}
	}
	var notes []string
	note := func(format string, values ...any) { notes = append(notes, fmt.Sprintf(format, values...)) }
	if n := len(found.Releases); n > 0 {
		note("finalizer %s is removed from %s; those that have not finished are not counted any more",
			wellknown.FinalizerTally, console.Count(n, "Pod"))
	}
	if len(found.GitOps) > 0 {
		note("%s manages these objects and may create them again: remove Curfew there first", strings.Join(found.GitOps, " and "))
	}
	if len(found.Others) > 0 {
		note("namespace %s is kept, since it has objects that are not part of Curfew: %s", found.Namespace, session.First(5, found.Others))
	} else if found.Unlabelled {
		note("namespace %s is kept, since Curfew's manifests did not create it; nothing else is in it: kubectl delete namespace %[1]s",
			found.Namespace)
	}
	console.PrintNotes(notes, diagnostics)
}

// conclude says after a removal whether anything is left that blocks, and what remains without an
// effect.
func (o *uninstallOptions) conclude(found *Installation, left []string, diagnostics io.Writer) error {
	if len(left) > 0 {
		fmt.Fprintf(diagnostics, "\nThis is left and may block requests or deletions: %s. Run the command again.\n", session.First(5, left))
		return console.ErrBadNews
	}
	gone := "no webhook configuration, no finalizer on a Pod, no CRD"
	if o.keepCRDs {
		gone = "no webhook configuration, no finalizer on a Pod; the CRDs are kept"
	}
	fmt.Fprintf(diagnostics, "\nCurfew is removed, and nothing of it blocks anything: %s.\n", gone)
	notes := []string{
		"annotations and labels that begin with " + wellknown.Prefix + " remain, and have no effect: " + keysOfCurfew,
		"Kubernetes still acts on ttlSecondsAfterFinished, also where Curfew filled it in",
	}
	if len(found.Remains) > 0 {
		notes = append(notes, "made for Curfew, but not by its manifests, and without effect: "+session.First(5, found.Remains))
	}
	if found.Helm != nil {
		notes = append(notes, fmt.Sprintf("Helm still lists the release, although nothing is left of it: helm uninstall %s -n %s",
			found.Helm.Name, found.Helm.Namespace))
	}
	console.PrintNotes(notes, diagnostics)
	return nil
}

// keysOfCurfew describes the annotations and labels that remain.
var keysOfCurfew = "your own ones, and Curfew's in-use, pods-in-use and default-since on namespaces, and " +
	"ttl-source, deadline-source, ttl-label-source, finished-at and counted-by on objects"
