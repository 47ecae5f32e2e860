package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// changing has the flags and steps of extend, expire-now and keep: plan each object, preview,
// confirm, and patch each in the state that was planned for.
type changing struct {
	*session.Connection
	selection world.Selection
	files     []string
	dryRun    console.DryRun
	yes       bool
	// done is the result that the command prints: "extended".
	done string
	// atOnce: the objects expire by label now, so that a pause of deletions is an obstacle.
	atOnce bool
	// cleanups are the next runs of cleanup policies, if the objects should outlive these; nil if
	// they do not matter.
	cleanups preview.ObjectRuns
	// plan plans the change of one object.
	plan func(subject *Subject, obstacles []judging.Obstacle) (*Plan, error)
}

func newChanging(env console.Environment, done string) *changing {
	return &changing{Connection: session.NewConnection(env, "text"), done: done}
}

func (c *changing) addFlags(command *cobra.Command) {
	flags := command.Flags()
	session.AddSelection(flags, &c.selection)
	flags.StringArrayVarP(&c.files, "filename", "f", nil,
		"file with the objects, or - for stdin: what expiring -o json or kubectl get -o json prints; "+
			"an object that was deleted and created again since is left alone")
	c.dryRun.Add(flags)
	flags.Lookup("dry-run").NoOptDefVal = "" // What follows would be an object.
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation")
	c.AddTo(command, map[string][]string{"dry-run": console.DryRuns})
}

const changingUse = "(KIND/NAME... | KIND NAME... | KIND -l SELECTOR | -f FILE)"

// planned is one object with its plan, or the reason why there is none.
type planned struct {
	world.Selected
	// before is the deletion without the change.
	before Deletion
	plan   *Plan
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
	nothing := (*NothingError)(nil)
	return errors.As(p.err, &nothing)
}

// run runs all three commands.
func (c *changing) run(ctx context.Context, call *session.Call) (err error) {
	if err := c.dryRun.Check(); err != nil {
		return err
	}
	now, diagnostics := call.Now, call.Diagnostics
	c.selection.Args = call.Args
	if c.selection.Namespace, err = c.Namespace(); err != nil {
		return err
	}
	leftOut := 0
	if c.selection.References, leftOut, err = readReferences(c.files, call.In, c.cleanups != nil); err != nil {
		return err
	}
	if leftOut > 0 {
		fmt.Fprintf(diagnostics, "note: left out %s that only cleanup policies delete: name them to change them, or use kubectl curfew keep\n",
			console.Count(leftOut, "object"))
	}
	if len(c.files) > 0 && len(c.selection.References) == 0 {
		fmt.Fprintln(diagnostics, "note: the list is empty, so that nothing changes")
		return c.finish(call, nil)
	}
	w, selected, err := c.Selected(ctx, now, session.Overlay{}, c.selection, call.Progress, call.Progress)
	if err == nil {
		err = w.Installed()
	}
	if err != nil {
		return err
	}
	var all []*planned
	ready := 0
	for i, object := range selected {
		call.Progress.Say("judging %d of %s", i+1, console.Count(len(selected), "object"))
		each, err := c.planOne(ctx, w, object, now)
		if err != nil {
			return err
		}
		if all = append(all, each); each.err == nil {
			ready++
		}
	}
	call.Progress.Done()
	if what, _ := w.Controller.Unread(); c.atOnce && what != "" {
		w.Note(what + " is not known: objects are deleted once it runs and may delete them")
	}
	console.PrintNotes(w.Notes(), diagnostics)
	if err := c.preview(ctx, call, w, all, ready); err != nil {
		return err
	}
	call.Progress.Again()
	return c.carryOut(ctx, call, w, all)
}

func (c *changing) planOne(ctx context.Context, w *world.World, object world.Selected, now time.Time) (*planned, error) {
	if object.Gone != nil {
		out := &planned{Selected: object, err: object.Gone}
		if c.atOnce {
			out.err = Nothing("%s", object.Gone)
		}
		return out, nil
	}
	explained, err := w.Explain(ctx, object.Kind, object.Object, now)
	if err != nil {
		return nil, err
	}
	obstacles, err := w.Obstacles(ctx, object.Kind, explained)
	if err != nil {
		return nil, err
	}
	if c.atOnce {
		paused, err := w.PausedLabels(ctx, object.Kind, explained.Facts.Namespace)
		if err != nil {
			return nil, err
		}
		obstacles = append(append(obstacles, paused...), w.SwitchedOff(explained.Facts, policy.TriggerLabel)...)
		obstacles = append(obstacles, w.HeldByPause(explained.Facts, policy.TriggerLabel, time.Time{})...)
	}
	out := &planned{Selected: object, before: DeletionOf(explained)}
	cleaned, err := c.cleaned(ctx, w, object.Kind, explained.Facts, now)
	if err != nil {
		return nil, err
	}
	subject := &Subject{Object: object.Object, Explained: explained, Alias: w.Controller.Alias, Now: now}
	subject.MayUpdate = func(policy string) rules.Answer { return w.MayUpdatePolicy(ctx, policy) }
	if cleaned != nil {
		subject.Cleaned = cleaned.Source.String()
		if before := out.before.Expiry; before.IsZero() || cleaned.Expiry.Before(before) {
			out.before = Deletion{Expiry: cleaned.Expiry}
		}
	}
	if out.plan, out.err = c.plan(subject, obstacles); out.plan != nil {
		out.plan.Before = out.before
	}
	return out, nil
}

// cleaned is the run of a cleanup policy that may delete an object; nil for none, or where it does
// not matter.
func (c *changing) cleaned(ctx context.Context, w *world.World, kind world.Kind, facts *policy.Facts, now time.Time) (
	*preview.ObjectRun, error) {
	if c.cleanups == nil {
		return nil, nil
	}
	runs, unknown, err := c.cleanups.Of(ctx, w, kind, facts.Namespace, facts.UID, now)
	if len(unknown) > 0 {
		w.Note("to keep an object from cleanup policies that are not known as well, annotate it: " +
			"kubectl annotate KIND/NAME " + wellknown.AnnotationProtect + "=true")
	}
	return preview.FirstRun(runs), err
}

// ExpireNowCommand is kubectl curfew expire-now.
func ExpireNowCommand(env console.Environment) *cobra.Command {
	options := newChanging(env, "expires now")
	options.plan, options.atOnce = ExpireNow, true
	command := &cobra.Command{
		Use:   "expire-now " + changingUse,
		Short: "Have Curfew delete objects now",
		Long: `Have Curfew delete objects now, by a TTL label that expires at once. Unlike
kubectl delete, Curfew performs the deletion, with its preconditions, rate
limit, log and protection. An object whose deletion is blocked is not changed.

It asks for confirmation before it deletes more than one object, a Namespace or
another cluster-scoped object, or an object that owns more than 10 others.`,
		Example: `  # Delete this Job now
  kubectl curfew expire-now job/build -n ci

  # Delete all finished Pods of a demo, after a preview
  kubectl curfew expire-now pods -l app=demo --dry-run=server
  kubectl curfew expire-now pods -l app=demo`,
		RunE:              options.Runs(options.run),
		ValidArgsFunction: options.CompleteObjects(),
	}
	options.addFlags(command)
	return command
}

// ExtendCommand is kubectl curfew extend.
func ExtendCommand(env console.Environment) *cobra.Command {
	options := newChanging(env, "extended")
	var by, until, to string
	command := &cobra.Command{
		Use:   "extend " + changingUse + " (--by DURATION | --until TIME | --to DURATION)",
		Short: "Let objects live longer",
		Long: `Let objects live longer: by a duration, until a time, or with another TTL.

This changes the value that decides: the TTL label, the annotation or the kind's
own field. A default of a namespace or policy is overridden by an annotation.
The command never shortens a life. --to gives a TTL to an object that has none.
Bounds are checked before anything is sent, and each object is changed in
exactly the state that was read.`,
		Example: `  # Keep a Job for another day
  kubectl curfew extend job/build -n ci --by 1d

  # Keep all ConfigMaps of a demo until Friday evening
  kubectl curfew extend configmaps -l app=demo --until 'friday 18:00'

  # Two weeks after it finishes, whenever that is
  kubectl curfew extend job/train --to 2w --dry-run=server`,
		RunE: options.Runs(func(ctx context.Context, call *session.Call) error {
			target, err := readTarget(by, until, to, call.Now)
			if err != nil {
				return err
			}
			options.plan = func(subject *Subject, _ []judging.Obstacle) (*Plan, error) { return Extend(subject, target) }
			return options.run(ctx, call)
		}),
		ValidArgsFunction: options.CompleteObjects(),
	}
	options.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&by, "by", "", "how much longer, such as 1d")
	flags.StringVar(&until, "until", "", "new expiry, such as 'friday 18:00' or 2d")
	flags.StringVar(&to, "to", "", "new TTL after it finishes, such as 2w; from its creation for kinds that do not finish")
	return command
}

func readTarget(by, until, to string, now time.Time) (Target, error) {
	var out Target
	if given := slices.DeleteFunc([]string{by, until, to}, func(text string) bool { return text == "" }); len(given) != 1 {
		return out, errors.New("give one of --by, --until and --to")
	}
	flag, text, problem := "until", until, ""
	var err error
	switch {
	case by != "":
		flag, text = "by", by
		if out.By, err = lifetime.ParseDuration(by); out.By <= 0 {
			problem = "give more than 0"
		}
	case to == "never":
		return out, errors.New("--to=never: use kubectl curfew keep")
	case to != "":
		flag, text = "to", to
		if out.To, err = lifetime.ParseDuration(to); out.To <= 0 {
			problem = "give more than 0, or use expire-now"
		}
	default:
		if out.Until, err = moment.Parse(until, now); !out.Until.After(now) {
			problem = console.Instant(out.Until, now.Location()) + " is in the past: give a later time"
		}
	}
	if err == nil && problem != "" {
		err = errors.New(problem)
	}
	if err != nil {
		return out, fmt.Errorf("--%s=%s: %w", flag, text, err)
	}
	return out, nil
}

// KeepCommand is kubectl curfew keep.
func KeepCommand(env console.Environment) *cobra.Command {
	options := newChanging(env, "kept")
	options.cleanups = preview.ObjectRuns{}
	options.plan = func(subject *Subject, _ []judging.Obstacle) (*Plan, error) { return Keep(subject) }
	command := &cobra.Command{
		Use:   "keep " + changingUse,
		Short: "Keep objects: remove their expiry",
		Long: `Keep objects. This removes the TTL label and sets the TTL after finished to
never: in the annotation, and by removing the kind's own field, which the kind's
own controller reads. An object that bounds do not allow to stay is not changed.
Where a training runtime decides the TTL, the object is protected instead. One
that the next run of a cleanup policy may delete is protected as well. The
deadline stays as it is.`,
		Example: `  # Keep this Job for good
  kubectl curfew keep job/build -n ci

  # Keep all ConfigMaps of a demo
  kubectl curfew keep configmaps -l app=demo`,
		RunE:              options.Runs(options.run),
		ValidArgsFunction: options.CompleteObjects(),
	}
	options.addFlags(command)
	return command
}
