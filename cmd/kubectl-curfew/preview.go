package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
)

// previewOptions are the flags of preview.
type previewOptions struct {
	*connection
	files     []string
	manifests []string
	recursive bool
	at        string
	output    *output
}

func previewCommand(env environment) *cobra.Command {
	options := previewOptions{connection: newConnection(env), output: newOutput("text", "wide")}
	command := &cobra.Command{
		Use:   "preview (NAME | KIND/NAME | -f FILE) [flags]",
		Short: "Show what a cleanup policy would delete now",
		Long: `Show what a cleanup policy would delete if it ran now: numbers by kind and
namespace, what is skipped and why, whether maxDeletions, maxPercentage or a
missing approval would stop the run, and the next five runs. With -o wide it
lists each object. It decides by the code of the controller, and writes nothing.

NAME is a CleanupPolicy of the namespace or a ClusterCleanupPolicy. With -f, the
policy comes from a file and need not be in the cluster: it is shown as in its
first run. With --manifests, all objects come from files, too, and no cluster is
asked.

If you may impersonate the policy's service account, the command lists with the
rights of that account. Otherwise it lists with your own, and says so.

Exit status: 0 the run would delete what is shown, 1 it would be stalled and
delete nothing, 2 there is no answer: flags or files that cannot be used, or a
policy that cannot run.`,
		Example: `  # What would this policy delete now?
  kubectl curfew preview nightly

  # What would it delete, object by object, if it were applied?
  kubectl curfew preview -f nightly.yaml -o wide

  # Without a cluster, at a given time
  kubectl curfew preview -f nightly.yaml --manifests cluster/ --at 2026-12-24T02:00:00Z`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.execute(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: options.completePolicies(),
	}
	flags := command.Flags()
	options.add(flags)
	flags.StringArrayVarP(&options.files, "filename", "f", nil, "file or directory with the policy, or - for standard input; may be given more than once")
	flags.StringArrayVar(&options.manifests, "manifests", nil, "file or directory with the objects that take the place of the cluster; may be given more than once")
	flags.BoolVarP(&options.recursive, "recursive", "R", false, "read the directories below as well")
	flags.StringVar(&options.at, "at", "", "time of the run, such as 2026-12-24T02:00:00Z or 'friday 17:00'; now by default")
	options.output.addFlags(command)
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

func (o *previewOptions) execute(ctx context.Context, args []string, in io.Reader, out, diagnostics io.Writer) error {
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	local := len(o.files)+len(o.manifests) > 0
	if err := onePolicy(nil, args); err != nil && (!local || len(args) > 1) {
		return err
	}
	now := o.now()
	if o.at != "" {
		if now, err = moment.Parse(o.at, now); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	var answer *previewAnswer
	if len(o.manifests) > 0 {
		answer, err = o.offline(ctx, args, now, in, progress)
	} else {
		answer, err = o.live(ctx, args, now, in, progress)
	}
	if err != nil {
		return err
	}
	progress.done()
	if print != nil {
		err = print(answer.printed(), out)
	} else {
		width := 0
		if o.terminal(out) {
			width, _ = terminalSize(out)
		}
		if err = answer.print(out, o.output.format == "wide", o.output.noHeaders, width); err == nil {
			printNotes(answer.notes, diagnostics)
		}
	}
	if err == nil && answer.Stalled != nil {
		return errBadNews
	}
	return err
}

// offline previews a policy against manifests.
func (o *previewOptions) offline(ctx context.Context, args []string, now time.Time, in io.Reader, progress *progress) (*previewAnswer, error) {
	files, err := readLocal(ctx, slices.Concat(o.files, o.manifests), o.recursive, o.overrides.Context.Namespace, in, progress)
	if err != nil {
		return nil, err
	}
	p, err := files.policy(args)
	if err != nil {
		return nil, err
	}
	result, err := files.preview(ctx, p, now)
	if err != nil {
		return nil, err
	}
	answer := &previewAnswer{Result: result, offline: true, file: true, waits: p.NeedsApproval(false)}
	for _, name := range files.Undefined {
		answer.note("namespace %q is not among the manifests: it is treated as one without annotations and labels", name)
	}
	answer.addNotes()
	return answer, nil
}

// live previews a policy, of the cluster or of a file, against the cluster.
func (o *previewOptions) live(ctx context.Context, args []string, now time.Time, in io.Reader, progress *progress) (*previewAnswer, error) {
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	var p *cleanup.Policy
	var stored *world.CleanupPolicy
	if len(o.files) > 0 { // What is wrong with the file is said before a cluster is asked.
		files, err := readLocal(ctx, o.files, o.recursive, namespace, in, progress)
		if err != nil {
			return nil, err
		}
		if p, err = files.policy(args); err != nil {
			return nil, err
		}
	}
	progress.say("reading kinds, profiles and settings")
	w, err := o.open(ctx, now, overlay{}, progress)
	if err != nil {
		return nil, err
	}
	if o.at == "" {
		now = w.ServerTime(ctx, now)
	}
	if p == nil {
		if stored, err = w.CleanupPolicy(ctx, args[0], namespace); err != nil {
			return nil, err
		}
		compiled, errs := stored.Compile(expression.NewCompiler(expression.DefaultCacheSize))
		if len(errs) > 0 {
			return nil, fmt.Errorf("%s cannot run: %w", stored, errs.ToAggregate())
		}
		p = compiled
	}
	return previewIn(ctx, w, stored, p, now, progress)
}

// previewIn previews a policy in a cluster. stored is the policy as it was read there; nil if it
// comes from a file, for which this is its first run.
func previewIn(ctx context.Context, w *world.World, stored *world.CleanupPolicy, p *cleanup.Policy, now time.Time, progress *progress) (*previewAnswer, error) {
	progress.say("listing what the policy matches")
	result, account, err := previewRun(ctx, w, stored, p, survey.Only{}, now)
	if err != nil {
		return nil, err
	}
	answer := &previewAnswer{Result: result, file: stored == nil, own: account.Own, account: account.Name.String(), controllerDryRun: w.Controller.DryRun}
	if p.NeedsApproval(w.Controller.Published["require-approval"] == "true") {
		approved, _, err := w.Approved(ctx, p)
		if err != nil {
			return nil, err
		}
		answer.waits = !approved
	}
	if slices.Contains(w.Controller.Off, policy.TriggerCleanup) {
		answer.note("trigger cleanup is switched off (--enable): no cleanup policy runs")
	}
	answer.addNotes()
	answer.notes = append(answer.notes, w.Notes()...)
	return answer, nil
}

// previewRun previews the run of a policy at an instant, or a part of it.
func previewRun(ctx context.Context, w *world.World, stored *world.CleanupPolicy, p *cleanup.Policy, only survey.Only, at time.Time) (*preview.Result, *world.Account, error) {
	account, err := w.AccountOf(ctx, p.Account)
	if err != nil {
		return nil, nil, err
	}
	result, err := preview.Of(ctx, p, account, survey.Options{
		Account: account.Name.String(), Served: w.Resources, Source: w.Source(), Protect: w.Controller.Protect, Only: only, Now: at,
		Namespaces: func() ([]*policy.NamespacePolicy, error) { return w.NamespacesFor(ctx, p, only.Namespace) },
		Matched: func(ctx context.Context) (cleanup.Matched, error) {
			if stored == nil {
				return nil, nil
			}
			return w.CleanupMatched(ctx, stored, p, at)
		},
	})
	if errors.Is(err, survey.ErrForbidden) && account.Own {
		err = fmt.Errorf("%w; you may not impersonate it, so your own rights were used", err)
	}
	return result, account, err
}
