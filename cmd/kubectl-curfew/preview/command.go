package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
)

// previewOptions are the flags of preview.
type previewOptions struct {
	*session.Connection
	files     []string
	manifests []string
	recursive bool
	at        string
}

// Command is kubectl curfew preview.
func Command(env console.Environment) *cobra.Command {
	options := &previewOptions{Connection: session.NewConnection(env, "text", "wide")}
	command := &cobra.Command{
		Use:   "preview (NAME | KIND/NAME | -f FILE) [flags]",
		Short: "Show what a cleanup policy would delete now",
		Long: `Show what a cleanup policy would delete if it ran now: numbers by kind and
namespace, skipped objects and why, whether maxDeletions, maxPercentage or a
missing approval would stop the run. It also shows the next five runs, and with
-o wide each object. It decides by the code of the controller, and writes
nothing.

NAME is a CleanupPolicy of the namespace or a ClusterCleanupPolicy. With -f, the
policy comes from a file and need not be in the cluster: it is shown as in its
first run. With --manifests, all objects come from files, too, and no cluster is
asked.

If you may impersonate the policy's service account, the command lists with the
rights of that account. Otherwise it lists with your own, and says so. It does
the same where the account may list nothing: it names the rights that it lacks.

Exit status: 0 the run would delete these objects, 1 it would be stalled and
delete nothing, 2 there is no answer: flags or files that cannot be used, or a
policy that cannot run.`,
		Example: `  # What would this policy delete now?
  kubectl curfew preview nightly

  # What would it delete, object by object, if it were applied?
  kubectl curfew preview -f nightly.yaml -o wide

  # Without a cluster, at a given time
  kubectl curfew preview -f nightly.yaml --manifests cluster/ --at 2026-12-24T02:00:00Z`,
		RunE:              options.Runs(options.execute),
		ValidArgsFunction: options.CompletePolicies(),
	}
	flags := command.Flags()
	flags.StringArrayVarP(&options.files, "filename", "f", nil,
		"file or directory with the policy, or - for standard input; may be given more than once")
	flags.StringArrayVar(&options.manifests, "manifests", nil,
		"file or directory with the objects that take the place of the cluster; may be given more than once")
	flags.BoolVarP(&options.recursive, "recursive", "R", false, "read the directories below as well")
	flags.StringVar(&options.at, "at", "", "time of the run, such as 2026-12-24T02:00:00Z or 'friday 17:00'; now by default")
	options.AddTo(command, nil)
	return command
}

func (o *previewOptions) execute(ctx context.Context, call *session.Call) (err error) {
	local := len(o.files)+len(o.manifests) > 0
	if err := report.OnePolicy(nil, call.Args); err != nil && (!local || len(call.Args) > 1) {
		return err
	}
	if o.at != "" {
		if call.Now, err = moment.Parse(o.at, call.Now); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	read := o.live
	if len(o.manifests) > 0 {
		read = o.offline
	}
	answer, err := read(ctx, call)
	if err != nil {
		return err
	}
	call.Progress.Done()
	if call.Print != nil {
		err = call.Print(answer.printed(), call.Out)
	} else {
		if err = answer.Print(call.Out, o.Output.Format == "wide", o.Output.NoHeaders); err == nil {
			console.PrintNotes(answer.Notes, call.Diagnostics)
		}
	}
	if err == nil && answer.Stalled != nil {
		return console.ErrBadNews
	}
	return err
}

// offline previews a policy against manifests.
func (o *previewOptions) offline(ctx context.Context, call *session.Call) (*previewAnswer, error) {
	names := slices.Concat(o.files, o.manifests)
	files, err := ReadLocal(ctx, names, o.recursive, o.Overrides.Context.Namespace, call.In, call.Progress)
	if err != nil {
		return nil, err
	}
	p, err := files.Policy(call.Args)
	if err != nil {
		return nil, err
	}
	result, err := files.Preview(ctx, p, call.Now, time.Time{})
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
func (o *previewOptions) live(ctx context.Context, call *session.Call) (*previewAnswer, error) {
	namespace, err := o.Namespace()
	if err != nil {
		return nil, err
	}
	var p *cleanup.Policy
	var stored *world.CleanupPolicy
	if len(o.files) > 0 { // Report a faulty file before asking a cluster.
		files, err := ReadLocal(ctx, o.files, o.recursive, namespace, call.In, call.Progress)
		if err != nil {
			return nil, err
		}
		if p, err = files.Policy(call.Args); err != nil {
			return nil, err
		}
	}
	call.Progress.Say("reading kinds, profiles and settings")
	w, err := o.Open(ctx, call.Now, session.Overlay{}, nil) // As for unused.
	if err != nil {
		return nil, err
	}
	now := call.Now
	if o.at == "" {
		now = w.ServerTime(ctx, now)
	}
	if p == nil {
		if stored, err = w.CleanupPolicy(ctx, call.Args[0], namespace); err != nil {
			return nil, err
		}
		compiled, errs := stored.Compile(expression.NewCompiler(expression.DefaultCacheSize))
		if len(errs) > 0 {
			return nil, fmt.Errorf("%s cannot run: %w", stored, errs.ToAggregate())
		}
		p = compiled
	}
	return In(ctx, w, stored, p, now, call.Progress)
}

// In previews a policy in a cluster. stored is the policy as it was read there; nil if it
// comes from a file: then this is its first run.
func In(ctx context.Context, w *world.World, stored *world.CleanupPolicy, p *cleanup.Policy, now time.Time, progress *console.Progress) (
	*previewAnswer, error) {
	progress.Say("listing what the policy matches")
	account, err := w.AccountOf(ctx, p.Account, w.Controller.Namespace)
	if err != nil {
		return nil, err
	}
	result, err := previewRun(ctx, w, account, stored, p, survey.Only{}, now)
	why := unlisted(result, account, err)
	var blind []string
	if len(why) > 0 && !account.Own { // What the policy matches is worth seeing before the account has its rights.
		own := w.Self()
		own.Name, blind = account.Name, why
		account = own
		result, err = previewRun(ctx, w, account, stored, p, survey.Only{}, now)
		if unlisted(result, account, err) == nil {
			why = nil
		}
	}
	switch {
	case len(why) > 0:
		return nil, fmt.Errorf("%w: %s", ErrUnlisted, strings.Join(why, ", "))
	case err != nil:
		return nil, err
	}
	answer := &previewAnswer{
		Result: result, file: stored == nil, own: account.Own, account: account.Name.String(), blind: blind, controllerDryRun: w.Controller.DryRun,
	}
	if p.NeedsApproval(w.Controller.Published["require-approval"] == "true") {
		approved, _, err := w.Approved(ctx, p, &cmp.Or(stored, &world.CleanupPolicy{}).Status)
		if err != nil {
			return nil, err
		}
		answer.waits = !approved
	}
	if slices.Contains(w.Controller.Off, policy.TriggerCleanup) {
		answer.note("trigger cleanup is switched off (--enable): no cleanup policy runs")
	}
	answer.addNotes()
	answer.Notes = append(answer.Notes, w.Notes()...)
	return answer, nil
}

// ErrUnlisted: a preview would show nothing at all.
var ErrUnlisted = errors.New("nothing can be listed, so it is not known what the policy would delete")

// unlisted is why an account can list nothing of what the policy may match; nil where it can.
func unlisted(result *Result, account *world.Account, err error) []string {
	switch {
	case errors.Is(err, survey.ErrForbidden):
		return []string{err.Error()}
	case err != nil || result.Listed > 0:
		return nil
	}
	whose := "service account " + account.Name.String()
	if account.Own {
		whose = "you"
	}
	return append(console.Map(result.Lacks, func(lack string) string { return whose + " may not " + lack }), result.Unlisted...)
}

// previewRun previews the run of a policy at an instant, or a part of it, with the rights of an
// account.
func previewRun(ctx context.Context, w *world.World, account *world.Account, stored *world.CleanupPolicy, p *cleanup.Policy, only survey.Only,
	t time.Time) (*Result, error) {
	result, err := Of(ctx, p, account, survey.Options{
		Account: account.Name.String(), Served: w.Resources, Source: w.Source(), Protect: w.Controller.Protect, Only: only, Now: t,
		Namespaces: func() ([]*resolution.NamespacePolicy, error) { return w.NamespacesFor(ctx, p, only.Namespace) },
		Matched: func(ctx context.Context) (cleanup.Matched, error) {
			if stored == nil {
				return nil, nil
			}
			return w.CleanupMatched(ctx, stored, p, t)
		},
	})
	if errors.Is(err, survey.ErrForbidden) && account.Own {
		err = fmt.Errorf("%w; you may not impersonate it, so your own rights were used", err)
	}
	return result, err
}
