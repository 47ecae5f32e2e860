// Package approve creates the approval of a cleanup policy, after a look at what it would delete.
package approve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// approveOptions are the flags of approve.
type approveOptions struct {
	*session.Connection
	yes      bool
	specHash string
}

// Command is kubectl curfew approve.
func Command(env console.Environment) *cobra.Command {
	options := &approveOptions{Connection: session.NewConnection(env, "text")}
	command := &cobra.Command{
		Use:   "approve (NAME | KIND/NAME) [flags]",
		Short: "Approve a cleanup policy, after a look at what it would delete",
		Long: `Approve a cleanup policy with approval: Required, after a look at what it would
delete. Until then, each of its runs is a dry run.

NAME is a CleanupPolicy of the namespace or a ClusterCleanupPolicy. The command
shows what "kubectl curfew preview" shows, asks, and creates a CleanupApproval
or ClusterCleanupApproval, which takes the right to create it. Where you may not
list what the policy matches, it shows the policy's last dry run. The approval
is for the policy as it was shown: one that is changed later needs another one.
If the policy changes before you answer, nothing is approved. --yes approves
without asking, and takes the hash of what you looked at: status.specHash.`,
		Example: `  # Look at what a policy would delete, and approve it
  kubectl curfew approve nightly

  # In a pipeline that has looked at it
  kubectl curfew report nightly -o wide
  kubectl curfew approve nightly --yes --spec-hash fbf17f48946f2405e1004da9688a7e20`,
		Args:              report.OnePolicy,
		RunE:              options.Runs(options.execute),
		ValidArgsFunction: options.CompletePolicies(),
	}
	command.Flags().BoolVarP(&options.yes, "yes", "y", false, "approve without asking; takes --spec-hash")
	command.Flags().StringVar(&options.specHash, "spec-hash", "", "approve only the policy whose status.specHash this is")
	options.AddTo(command, nil)
	return command
}

func (o *approveOptions) execute(ctx context.Context, call *session.Call) error {
	if o.yes && o.specHash == "" {
		return errors.New("--yes: add --spec-hash, the status.specHash of the policy that you looked at")
	}
	w, policy, err := call.CleanupPolicy(ctx, "reading %s")
	if err != nil {
		return err
	}
	if err := approvable(policy); err != nil {
		return err
	}
	compiled, errs := policy.Compile(expression.NewCompiler(expression.DefaultCacheSize))
	if len(errs) > 0 {
		return fmt.Errorf("%s cannot run: %w", policy, errs.ToAggregate())
	}
	if policy.Status.SpecHash != compiled.Hash {
		return fmt.Errorf("status.specHash of %s is %q, but its spec has the hash %q: either another user wrote the status, "+
			"or this plugin and the controller are of different versions (see kubectl curfew status)",
			policy, policy.Status.SpecHash, compiled.Hash)
	}
	if o.specHash != "" && o.specHash != compiled.Hash {
		return fmt.Errorf("--spec-hash=%s: the spec of %s has the hash %s: look at it again", o.specHash, policy, compiled.Hash)
	}
	if err := show(ctx, w, policy, compiled, call.Now, call.Progress); err != nil {
		return err
	}
	call.Progress.Done()
	if !o.yes {
		fmt.Fprintln(call.Diagnostics)
		question := fmt.Sprintf("Approve %s, generation %d?", policy, policy.Generation)
		if err := o.Confirm(ctx, question, call.In, call.Diagnostics); err != nil {
			return err
		}
	}
	if err := unchanged(ctx, w, policy); err != nil {
		return err
	}
	approval, created, err := w.ApproveCleanup(ctx, policy, compiled.Hash)
	if err != nil {
		return err
	}
	how := "created"
	if !created {
		how = "unchanged: the policy was approved before"
	}
	return call.PrintObjects(how, approval)
}

// approvable reports why a policy cannot be approved as it is now. The status is only a hint, as
// others than Curfew may be able to write it. The approval names the hash of the spec that the user
// is shown.
func approvable(policy *world.CleanupPolicy) error {
	if policy.Status.ObservedGeneration != policy.Generation || policy.Status.SpecHash == "" {
		return fmt.Errorf("Curfew has not read %s as it is now: try again in a moment, or see kubectl curfew status", policy)
	}
	if ready := report.Condition(policy, v1alpha1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
		return fmt.Errorf("%s cannot run: %s", policy, console.OneLine(ready.Message))
	}
	return nil
}

// unchanged reports an error unless a policy is still what the user was shown.
func unchanged(ctx context.Context, w *world.World, shown *world.CleanupPolicy) error {
	live, err := w.CleanupPolicy(ctx, shown.Kind+"/"+shown.Name, shown.Namespace)
	if err != nil {
		return err
	}
	if live.UID != shown.UID || live.Generation != shown.Generation {
		return fmt.Errorf("%s was changed in between, and was not approved: run the command again", shown)
	}
	return nil
}

// show shows what the policy would delete now, and where the user may not look, what its last dry
// run says.
func show(ctx context.Context, w *world.World, policy *world.CleanupPolicy, compiled *cleanup.Policy, now time.Time,
	progress *console.Progress) error {
	if policy.Spec.Approval != v1alpha1.ApprovalRequired {
		fmt.Fprintln(progress, "note: the policy does not say approval: Required; "+
			"it needs none, unless the controller runs with --require-approval and it is a CleanupPolicy")
	}
	answer, err := preview.In(ctx, w, policy, compiled, w.ServerTime(ctx, now), progress)
	switch {
	case errors.Is(err, survey.ErrForbidden) || errors.Is(err, preview.ErrUnlisted) || apierrors.IsForbidden(err):
		fmt.Fprintf(progress, "note: no preview: %v\n", err)
		return showDryRun(ctx, w, policy, now, progress)
	case err != nil:
		return err
	}
	progress.Done()
	if err := answer.Print(progress, true, false); err != nil {
		return err
	}
	console.PrintNotes(answer.Notes, progress)
	if len(answer.Lacks) > 0 {
		return showDryRun(ctx, w, policy, now, progress)
	}
	return nil
}

// showDryRun shows the last dry run of a policy as it is now.
func showDryRun(ctx context.Context, w *world.World, policy *world.CleanupPolicy, now time.Time, diagnostics io.Writer) error {
	last := policy.Status.LastRun
	if last == nil || last.Generation != policy.Generation || !last.DryRun || last.Phase == v1alpha1.RunRunning {
		fmt.Fprintf(diagnostics, "note: no dry run has shown what the policy would delete as it is now%s\n", report.NextRun(policy, now))
		return nil
	}
	answer, err := report.Read(ctx, w, policy, "", now)
	if err != nil {
		return err
	}
	answer.Runs = nil // Of other generations, maybe.
	return answer.Print(diagnostics, now, true, false)
}
