// Package uninstall removes what would block a cluster that Curfew leaves, and names the command
// that removes the rest.
//
// inventory.go finds the objects of an installation, by the names in the manifests. command.go first
// asks the API server, in a dry run, whether all deletions are allowed, so that a removal never ends
// half-way because of a missing permission. It then deletes in this order:
//
//  1. Webhook configurations, so that no request waits for a webhook.
//  2. The Deployments and then the ClusterRoleBindings: a controller that still runs somewhere can
//     do nothing any more, and adds no finalizers.
//  3. The finalizers of PodTallies on Pods.
//
// The tool that installed Curfew removes the rest. CRDs, what Curfew itself wrote, and the Namespace
// stay.
package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/wellknown"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	*session.Connection
	yes     bool
	dryRun  console.DryRun
	timeout time.Duration
}

// Command is kubectl curfew uninstall.
func Command(env console.Environment) *cobra.Command {
	options := &uninstallOptions{Connection: session.NewConnection(env)}
	command := &cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Remove what would block, and name the command that removes the rest of Curfew",
		Long: `Remove what would block a cluster without Curfew: its webhook configurations,
Deployments and ClusterRoleBindings, and the finalizers of PodTallies on Pods.
The command then prints the one command that removes the rest. Run it again
after that: it shows what is left.

CRDs stay, and with them policies, PodTallies and reports, without effect.

It takes the rights of a cluster administrator, which a dry run checks first.

Exit status: 0 nothing is left that blocks, 1 something is, 2 not all could be
removed.`,
		Example: `  # What would be removed, and what removes the rest?
  kubectl curfew uninstall --dry-run`,
		Args: cobra.NoArgs,
		RunE: options.Runs(options.run),
	}
	flags := command.Flags()
	options.dryRun.Add(flags)
	flags.Lookup("dry-run").Usage = "none, client or server: the last two show what would be removed, and whether you may"
	flags.BoolVarP(&options.yes, "yes", "y", false, "remove without asking")
	flags.DurationVar(&options.timeout, "timeout", 2*time.Minute, "how long to wait for Curfew's Pods to stop")
	options.AddTo(command, map[string][]string{"dry-run": console.DryRuns})
	return command
}

func (o *uninstallOptions) run(ctx context.Context, call *session.Call) error {
	session.SetVerbosity(o.Verbosity)
	if err := o.dryRun.Check(); err != nil {
		return err
	}
	clients, err := o.Connect(o.Config, call.Progress)
	if err != nil {
		return err
	}
	call.Progress.Say("looking for what Curfew consists of")
	found, err := find(ctx, clients, o.CurfewNamespace)
	if err != nil {
		return err
	}
	if found.blocks() {
		if err := o.prepare(ctx, found, call); err != nil || o.dryRun != "none" {
			return err
		}
	}
	// Again, since a request of the controller may have been under way when its permissions ended.
	for round := 0; round < 5 && found.blocks(); round++ {
		if found, err = found.remove(ctx, o.timeout, func(what string) { fmt.Fprintln(call.Out, what) }); err != nil {
			return err
		}
	}
	call.Progress.Done()
	return found.conclude(call)
}

// prepare checks permissions, and asks, or with --dry-run shows the changes.
func (o *uninstallOptions) prepare(ctx context.Context, found *installation, call *session.Call) error {
	var plan []string
	if err := found.check(ctx, func(what string) { plan = append(plan, what+" (server dry run)\n") }); err != nil {
		return fmt.Errorf("%w\nnothing was removed: it takes the rights of a cluster administrator", err)
	}
	call.Progress.Done()
	notes := []string{"to remove the rest: " + found.next}
	if found.loses {
		notes = append(notes, "helm uninstall will delete the CRDs with all policies; to keep them, first set the value crds.keep=true")
	}
	console.PrintNotes(notes, call.Diagnostics)
	if o.dryRun != "none" {
		_, err := fmt.Fprint(call.Out, strings.Join(plan, ""))
		return err
	}
	config, err := o.Config.ClientConfig()
	if err == nil && !o.yes {
		question := fmt.Sprintf("Stop Curfew in %s, and release %s from PodTallies?", config.Host, console.Count(len(found.held), "Pod"))
		err = o.Confirm(ctx, question, call.In, call.Diagnostics)
	}
	call.Progress.Again()
	return err
}

// conclude shows what is left, and the command that removes it.
func (i *installation) conclude(call *session.Call) error {
	out, left, crds := call.Diagnostics, i.names(installed, inside), i.names(kinds)
	switch {
	case i.blocks():
		fmt.Fprintf(out, "This is left and may block: %s; Pods with finalizer %s: %d. Run the command again.\n",
			console.OrDash(session.First(5, i.names(webhooks, workloads, permissions))), wellknown.FinalizerTally, len(i.held))
		return console.ErrBadNews
	case len(left) > 0:
		fmt.Fprintf(out, "Nothing of Curfew blocks anything. Left: %s. To remove the rest:\n  %s\nThen run this command again.\n",
			session.First(5, left), i.next)
	case len(crds) > 0:
		fmt.Fprintf(out, "Nothing of Curfew blocks anything. The CRDs stay, and namespace %s with what Curfew wrote there.\n"+
			"To delete the CRDs with all policies, PodTallies and reports:\n  kubectl delete %s\n", i.namespace, strings.Join(crds, " "))
	default:
		fmt.Fprintln(out, "Curfew is not installed: nothing of it was found.")
	}
	return nil
}

// blocks reports whether there is something to remove.
func (i *installation) blocks() bool {
	return len(i.of(webhooks, workloads, permissions))+len(i.held) > 0
}

// check asks the API server, in a dry run, whether all that a removal does is allowed.
func (i *installation) check(ctx context.Context, done func(what string)) error {
	err := i.delete(ctx, done, i.of(webhooks, workloads, permissions), metav1.DryRunAll)
	if len(i.held) > 0 {
		err = errors.Join(err, i.release(ctx, i.held[0], metav1.DryRunAll))
		done(console.Count(len(i.held), "pod") + released)
	}
	return err
}

// remove removes what blocks, and passes each change to done. It finds what is there afterwards.
func (i *installation) remove(ctx context.Context, timeout time.Duration, done func(what string)) (*installation, error) {
	if err := i.delete(ctx, done, i.of(webhooks, workloads)); err != nil {
		return nil, err
	}
	// Pods on a node that does not answer stay for long. They can do nothing without permissions.
	_ = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{LabelSelector: wellknown.LabelPartOf + "=" + wellknown.PartOfCurfew}
		left, err := i.clients.Metadata.Resource(pods).Namespace(i.namespace).List(ctx, options)
		return err == nil && len(left.Items) == 0, nil // An API server that does not answer is asked again.
	})
	if err := i.delete(ctx, done, i.of(permissions)); err != nil {
		return nil, err
	}
	if err := i.holds(ctx); err != nil { // The controller has counted until now.
		return nil, err
	}
	group, groupContext := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, pod := range i.held {
		group.Go(func() error { return i.release(groupContext, pod) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if len(i.held) > 0 {
		done(console.Count(len(i.held), "pod") + released)
	}
	return find(ctx, i.clients, i.namespace)
}

// delete deletes exactly the objects that were found. Another object that has the name of one stays.
// The garbage collector deletes some that the controller wrote, and may be faster.
func (i *installation) delete(ctx context.Context, done func(what string), objects []*object, dryRun ...string) (errs error) {
	for _, found := range objects {
		options := *metav1.NewPreconditionDeleteOptions(string(found.GetUID()))
		options.PropagationPolicy, options.DryRun = new(metav1.DeletePropagationBackground), dryRun
		err := i.clients.Objects.Resource(found.kind).Namespace(found.GetNamespace()).Delete(ctx, found.GetName(), options)
		switch {
		case err == nil || apierrors.IsNotFound(err):
			done(found.String() + " deleted")
		case !apierrors.IsConflict(err):
			errs = errors.Join(errs, fmt.Errorf("deleting %s: %w", found, err))
		}
	}
	return errs
}

// released is about Pods.
const released = " released: finalizer " + wellknown.FinalizerTally + " removed"

// release removes the finalizer from a Pod, and nothing else (S5). A Pod that a PodTally has as
// good as counted says so, so that it is not counted again if Curfew comes back (S7).
func (i *installation) release(ctx context.Context, pod *metav1.PartialObjectMetadata, dryRun ...string) error {
	metadata := map[string]any{"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{wellknown.FinalizerTally}}
	if tally := i.counted[pod.UID]; tally != "" {
		metadata["annotations"] = map[string]any{wellknown.AnnotationCountedBy: tally}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = i.clients.Objects.Resource(pods).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{FieldManager: "kubectl-curfew", DryRun: dryRun})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // Conflict: another Pod has the name.
		return fmt.Errorf("releasing Pod %s in namespace %s: %w", pod.Name, pod.Namespace, err)
	}
	return nil
}
