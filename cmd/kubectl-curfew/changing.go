package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// changing has the flags and steps of extend, expire-now and keep: plan each object, preview,
// confirm, and patch each in the state that was planned for.
type changing struct {
	*connection
	selection world.Selection
	files     []string
	dryRun    string
	yes       bool
	output    *output
	// done is the result that the command prints: "extended".
	done string
	// atOnce: the objects expire by label now, so that a pause of deletions is an obstacle.
	atOnce bool
	// cleanups are the next runs of cleanup policies, if the objects should outlive these; nil if
	// they do not matter.
	cleanups cleanups
	// plan plans the change of one object.
	plan func(subject *change.Subject, obstacles []policy.Obstacle) (*change.Plan, error)
}

func newChanging(env environment, done string) *changing {
	return &changing{connection: newConnection(env), dryRun: "none", output: newOutput("text"), done: done}
}

func (c *changing) addFlags(command *cobra.Command) {
	flags := command.Flags()
	c.add(flags)
	addSelection(flags, &c.selection)
	flags.StringArrayVarP(&c.files, "filename", "f", nil, "file with the objects, or - for stdin: what expiring -o json or kubectl get -o json prints; an object that was deleted and created again since is left alone")
	flags.StringVar(&c.dryRun, "dry-run", c.dryRun, "none, client (send nothing) or server (send it, but store nothing)")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation")
	c.output.addFlags(command)
	c.completeFlags(command, map[string][]string{"dry-run": {"client", "none", "server"}, "output": c.output.formats()})
}

const changingUse = "(KIND/NAME... | KIND NAME... | KIND -l SELECTOR | -f FILE)"

func (c *changing) validate() (printFunc, error) {
	var errs []error
	switch c.dryRun {
	case "none", "client", "server":
	default:
		errs = append(errs, fmt.Errorf("--dry-run=%s: give none, client or server", c.dryRun))
	}
	print, err := c.output.printer()
	if err != nil {
		errs = append(errs, err)
	}
	return print, errors.Join(errs...)
}

// planned is one object with its plan, or the reason why there is none.
type planned struct {
	world.Selected
	// before is the deletion without the change.
	before change.Deletion
	plan   *change.Plan
	err    error
}

func (p *planned) String() string {
	if p.Namespace == "" {
		return p.Kind.Name(p.Name)
	}
	return p.Kind.Name(p.Name) + " in namespace " + p.Namespace
}

// unchanged reports whether the object is already as wanted.
func (p *planned) unchanged() bool {
	nothing := (*change.NothingError)(nil)
	return errors.As(p.err, &nothing)
}

// run runs all three commands.
func (c *changing) run(cmd *cobra.Command, args []string) error {
	print, err := c.validate()
	if err != nil {
		return err
	}
	ctx, now := cmd.Context(), c.now()
	out, diagnostics := cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.selection.Args = args
	if c.selection.Namespace, err = c.namespace(); err != nil {
		return err
	}
	leftOut := 0
	if c.selection.References, leftOut, err = readReferences(c.files, cmd.InOrStdin(), c.cleanups != nil); err != nil {
		return err
	}
	if leftOut > 0 {
		printNotes([]string{fmt.Sprintf("left out %s that only cleanup policies delete: name them to change them, or use kubectl curfew keep", count(leftOut, "object"))}, diagnostics)
	}
	if len(c.files) > 0 && len(c.selection.References) == 0 {
		return c.nothing(print, now, out, diagnostics)
	}
	progress := newProgress(c.environment, diagnostics)
	defer progress.done()
	w, selected, err := c.selected(ctx, now, overlay{}, c.selection, progress, progress)
	if err == nil {
		err = w.Installed()
	}
	if err != nil {
		return err
	}
	var all []*planned
	ready := 0
	for i, one := range selected {
		progress.say("judging %d of %s", i+1, count(len(selected), "object"))
		each, err := c.planOne(ctx, w, one, now)
		if err != nil {
			return err
		}
		if all = append(all, each); each.err == nil {
			ready++
		}
	}
	progress.done()
	if what, _ := w.Controller.Unread(); c.atOnce && what != "" {
		w.Note(what + " is not known: objects are deleted once it runs and may delete them")
	}
	printNotes(w.Notes(), diagnostics)
	if err := c.preview(ctx, w, all, ready, now, cmd.InOrStdin(), diagnostics); err != nil {
		return err
	}
	progress.again()
	return c.carryOut(ctx, w, all, print, now, out, progress)
}

// nothing ends a command whose -f is an empty list.
func (c *changing) nothing(print printFunc, now time.Time, out, diagnostics io.Writer) error {
	fmt.Fprintln(diagnostics, "note: the list is empty, so that nothing changes")
	if print == nil {
		return nil
	}
	return print(printedChanges(nil, now), out)
}

func (c *changing) planOne(ctx context.Context, w *world.World, one world.Selected, now time.Time) (*planned, error) {
	if one.Gone != nil {
		out := &planned{Selected: one, err: one.Gone}
		if c.atOnce {
			out.err = change.Nothing("%s", one.Gone)
		}
		return out, nil
	}
	explained, err := w.Explain(ctx, one.Kind, one.Object, now)
	if err != nil {
		return nil, err
	}
	obstacles, err := w.Obstacles(ctx, one.Kind, explained)
	if err != nil {
		return nil, err
	}
	if c.atOnce {
		paused, err := w.PausedLabels(ctx, one.Kind, explained.Facts.Namespace)
		if err != nil {
			return nil, err
		}
		obstacles = append(append(obstacles, paused...), w.SwitchedOff(explained.Facts, policy.TriggerLabel)...)
		obstacles = append(obstacles, w.HeldByPause(explained.Facts, policy.TriggerLabel, time.Time{})...)
	}
	out := &planned{Selected: one, before: change.DeletionOf(explained)}
	cleaned, err := c.cleaned(ctx, w, one.Kind, explained.Facts, now)
	if err != nil {
		return nil, err
	}
	subject := &change.Subject{Object: one.Object, Explained: explained, Alias: w.Controller.Alias, Now: now}
	subject.MayUpdate = func(policy string) rules.Answer { return w.MayUpdatePolicy(ctx, policy) }
	if cleaned != nil {
		subject.Cleaned = cleaned.Source.String()
		if before := out.before.Expiry; before.IsZero() || cleaned.Expiry.Before(before) {
			out.before = change.Deletion{Expiry: cleaned.Expiry}
		}
	}
	if out.plan, out.err = c.plan(subject, obstacles); out.plan != nil {
		out.plan.Before = out.before
	}
	return out, nil
}

// cleaned is the run of a cleanup policy that may delete an object; nil for none, or where it does
// not matter.
func (c *changing) cleaned(ctx context.Context, w *world.World, kind world.Kind, facts *policy.Facts, now time.Time) (*cleanupRun, error) {
	if c.cleanups == nil {
		return nil, nil
	}
	runs, unknown, err := c.cleanups.of(ctx, w, kind, facts.Namespace, facts.UID, now)
	if len(unknown) > 0 {
		w.Note(fmt.Sprintf("to keep an object from cleanup policies that are not known as well, annotate it: kubectl annotate KIND/NAME %s=true", policy.AnnotationProtect))
	}
	return firstRun(runs), err
}
