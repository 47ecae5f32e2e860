// Package pause creates and deletes DeletionPauses: kubectl curfew pause and resume.
package pause

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// pauseOptions are the flags of pause.
type pauseOptions struct {
	*session.Connection
	triggers      []string
	length        string
	reason, named string
	dryRun        console.DryRun
}

// Command is kubectl curfew pause.
func Command(env console.Environment) *cobra.Command {
	options := &pauseOptions{Connection: session.NewConnection(env, "text")}
	command := &cobra.Command{
		Use:   "pause [-n NAMESPACE,...] [--trigger TRIGGER,...] [--for DURATION] [--reason TEXT]",
		Short: "Stop all deletions and stops of Curfew at once, until you resume them",
		Long: `Stop all deletions and stops of Curfew, or some, by namespace or trigger.
Five seconds after the command says so, Curfew sends none that the pause names.
What falls due meanwhile waits, and is deleted at the usual pace afterwards.

Without -n the pause is for the whole cluster, whatever the namespace of your
context is. -n takes several names that exist, and patterns: -n 'a,ci-*'. The
Namespaces themselves are held too, other cluster-scoped objects are not.

The command creates a DeletionPause, which takes the right to create it
(ClusterRole curfew-pause). It says how many objects are deleted all the same,
because Kubernetes deletes them by a field such as ttlSecondsAfterFinished.`,
		Example: `  # Something is wrong: stop everything
  kubectl curfew pause

  # A restore of two namespaces, for at most two hours
  kubectl curfew pause -n ci,lab --for 2h --reason restore

  # Stop what TTL labels delete
  kubectl curfew pause --trigger label --reason 'wrong default label'`,
		Args: cobra.NoArgs,
		RunE: options.Runs(options.run),
	}
	flags := command.Flags()
	flags.StringVar(&options.reason, "reason", "", "why, for the people who wonder")
	flags.StringSliceVar(&options.triggers, "trigger", nil, "what to hold: "+strings.Join(judging.PausableTriggers(), ", ")+"; all by default")
	flags.StringVar(&options.length, "for", "", "how long, such as 30m, 2h or 1d; until you resume by default")
	flags.StringVar(&options.named, "name", "", "name of the pause; one is made up by default")
	options.dryRun.Add(flags)
	options.AddTo(command, map[string][]string{"trigger": judging.PausableTriggers(), "dry-run": console.DryRuns})
	return command
}

// pause builds the pause that the flags ask for.
func (o *pauseOptions) pause(now time.Time) (judging.Pause, error) {
	out := judging.Pause{Name: o.named, Reason: cmp.Or(strings.TrimSpace(o.reason), "no reason given")}
	errs := []error{o.dryRun.Check()}
	for _, trigger := range o.triggers {
		if out.Triggers = append(out.Triggers, policy.Trigger(trigger)); !judging.InfoOf(policy.Trigger(trigger)).Pausable {
			errs = append(errs, fmt.Errorf("--trigger=%s: give %s", trigger, session.EitherOf(judging.PausableTriggers())))
		}
	}
	if o.length != "" {
		length, err := lifetime.ParseDuration(o.length)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--for=%s: %w", o.length, err))
		case length <= 0:
			errs = append(errs, fmt.Errorf("--for=%s: give more than 0", o.length))
		}
		out.Until = now.Add(length).Truncate(time.Second)
	}
	for name := range strings.SplitSeq(o.Overrides.Context.Namespace, ",") { // Not that of the context.
		if name != "" {
			out.Namespaces = append(out.Namespaces, name)
		}
	}
	if out.Name == "" {
		out.Name = "pause-" + now.UTC().Format("0102-1504") + "-" + utilrand.String(4)
	}
	return out, errors.Join(errs...)
}

func (o *pauseOptions) run(ctx context.Context, call *session.Call) error {
	diagnostics := call.Diagnostics
	if _, err := o.pause(call.Now); err != nil {
		return err
	}
	w, err := o.Open(ctx, call.Now, session.Overlay{}, nil)
	if err != nil {
		return err
	}
	now := w.ServerTime(ctx, o.Now())
	pause, err := o.pause(now)
	if err != nil {
		return err
	}
	if w.Pauses.Presence == world.Missing && w.Installed() != nil {
		return w.Installed()
	}
	for _, name := range pause.Namespaces {
		if err := w.NoNamespace(ctx, name); err != nil && !strings.Contains(name, "*") {
			return fmt.Errorf("%w, or the pattern %s* for one that will be created", err, name)
		}
	}
	object, err := w.CreatePause(ctx, pause, string(o.dryRun))
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: ask for ClusterRole curfew-pause", err)
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", world.PauseName(pause.Name), err)
	}
	if o.dryRun != "none" {
		return call.PrintObjects("created"+o.dryRun.Mark(), object)
	}
	until := ""
	if !pause.Until.IsZero() {
		until = ", until " + console.Instant(pause.Until, now.Location())
	}
	how := fmt.Sprintf("created: five seconds from now Curfew deletes and stops nothing %s%s", whatPaused(&pause), until)
	if err := call.PrintObjects(how, object); err != nil {
		return err
	}
	fmt.Fprintf(diagnostics, "To end it: kubectl curfew resume %s\n", pause.Name)
	if len(pause.Triggers) > 0 && !slices.Contains(pause.Triggers, policy.TriggerTTL) {
		return nil
	}
	count, err := w.NativelyDue(ctx, pause, now)
	switch {
	case err != nil:
		fmt.Fprintf(diagnostics, "note: how many objects Kubernetes deletes meanwhile is not known: %v\n", err)
	case count > 0:
		fmt.Fprintf(diagnostics, "warning: %s due before it ends by a native TTL field, and no pause holds that: "+
			"the kind's own controller deletes what is due\n", console.Count(count, "finished object falls", "finished objects fall"))
	}
	console.PrintNotes(w.Notes(), diagnostics)
	return nil
}

// whatPaused names the triggers and namespaces that a pause holds.
func whatPaused(p *judging.Pause) string {
	where := "in the whole cluster"
	if len(p.Namespaces) > 0 {
		where = "in namespace " + strings.Join(p.Namespaces, ", ")
	}
	if len(p.Triggers) == 0 {
		return where
	}
	names := console.Map(p.Triggers, func(trigger policy.Trigger) string { return string(trigger) })
	return "by trigger " + strings.Join(names, ", ") + " " + where
}

// resumeOptions are the flags of resume.
type resumeOptions struct {
	*session.Connection
	all    bool
	dryRun console.DryRun
}

// ResumeCommand is kubectl curfew resume.
func ResumeCommand(env console.Environment) *cobra.Command {
	options := &resumeOptions{Connection: session.NewConnection(env, "text")}
	command := &cobra.Command{
		Use:   "resume [NAME...] [flags]",
		Short: "End a pause: Curfew deletes and stops again, at the usual pace",
		Long: `End a pause: delete the DeletionPause. Curfew then deletes what fell due
meanwhile, at the usual pace and within the usual limits. Look first at it:

  kubectl curfew expiring -A --within 1s

Without a NAME it ends the one that kubectl curfew pause made. If there are
several, name one, or give --all. Pauses that were made otherwise, such as by
GitOps, are ended by name alone.`,
		Example: `  # End the pause
  kubectl curfew resume

  # End this one
  kubectl curfew resume pause-1224-1200-x7k2`,
		RunE:              options.Runs(options.run),
		ValidArgsFunction: options.CompleteNames(v1alpha1.DeletionPauses, math.MaxInt),
	}
	command.Flags().BoolVar(&options.all, "all", false, "all pauses that kubectl curfew pause made")
	options.dryRun.Add(command.Flags())
	options.AddTo(command, map[string][]string{"dry-run": console.DryRuns})
	return command
}

func (o *resumeOptions) run(ctx context.Context, call *session.Call) error {
	names := call.Args
	if o.all && len(names) > 0 {
		return errors.New("--all: leave it out, or the names")
	}
	if err := o.dryRun.Check(); err != nil {
		return err
	}
	w, err := o.Open(ctx, call.Now, session.Overlay{}, nil)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = o.made(w); err != nil {
			return err
		}
	}
	var ended []*unstructured.Unstructured
	var errs []error
	for _, name := range names {
		object, err := w.DeletePause(ctx, name, string(o.dryRun))
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("%s does not exist", world.PauseName(name)))
		case err != nil:
			errs = append(errs, fmt.Errorf("deleting %s: %w", world.PauseName(name), err))
		default:
			ended = append(ended, object)
		}
	}
	if len(ended) > 0 {
		errs = append(errs, call.PrintObjects("deleted"+o.dryRun.Mark(), ended...))
	}
	for _, pause := range w.Pauses.InEffect(w.ServerTime(ctx, call.Now)) {
		if !slices.Contains(names, pause.Name) {
			fmt.Fprintf(call.Diagnostics, "note: %s\n", console.OneLine(pause.Message()))
		}
	}
	return errors.Join(errs...)
}

// made are the pauses that a command without names ends.
func (o *resumeOptions) made(w *world.World) ([]string, error) {
	pauses := &w.Pauses
	var names, others []string
	for _, pause := range pauses.All {
		if pause.Here {
			names = append(names, pause.Name)
		} else {
			others = append(others, pause.Name)
		}
	}
	switch {
	case pauses.Presence == world.Missing && w.Installed() != nil:
		return nil, w.Installed()
	case pauses.Presence == world.Unread:
		return nil, errors.New("you may not list DeletionPauses: name the one to end")
	case len(names) > 1 && !o.all:
		return nil, fmt.Errorf("there are several: name one of %s, or give --all", strings.Join(names, ", "))
	case len(names) == 0 && len(others) > 0:
		return nil, fmt.Errorf("kubectl curfew pause made none of them: name one of %s", strings.Join(others, ", "))
	case len(names) == 0:
		return nil, errors.New("there is no pause")
	}
	return names, nil
}
