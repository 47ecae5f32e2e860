package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	*connection
	selection world.Selection
	output    *output
	with      []string
}

func explainCommand(around surroundings) *cobra.Command {
	options := explainOptions{connection: newConnection(around), output: newOutput("text")}
	command := &cobra.Command{
		Use:   "explain (KIND/NAME... | KIND NAME... | KIND -l SELECTOR) [flags]",
		Short: "Say why an object goes when it does, and what stands in its way",
		Long: `Say why an object goes when it does, or does not: what each level of precedence says and which of them decides, for its TTL after
finished, its TTL label and its deadline; what stands in its way, and the command that would change it.

It asks the API server alone, with your own permissions, and judges as the controller does. What you may not read is said.`,
		Example: `  # Why does this Job go when it does, and what stands in its way?
  kubectl curfew explain job/build -n ci

  # What would a policy say of it that is not applied yet?
  kubectl curfew explain job/build -n ci --with policy.yaml

  # For programs
  kubectl curfew explain configmap/demo -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			options.selection.Args = args
			return options.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: options.completeObjects(),
	}
	flags := command.Flags()
	options.add(flags)
	addSelection(flags, &options.selection)
	options.output.addFlags(command)
	flags.StringArrayVar(&options.with, "with", nil, "file with LifecyclePolicies and KindProfiles that count as if they were applied now")
	options.completeFlags(command, map[string][]string{"output": options.output.formats()})
	return command
}

// explained is all that is to be said about one object.
type explained struct {
	kind   world.Kind
	object map[string]any
	// controller is how Curfew's is set.
	controller world.Controller
	now        time.Time
	of         *policy.Explanation
	obstacles  []policy.Obstacle
	// unknown is what may stand in its way and cannot be known by whoever asks.
	unknown []string
	// entries are when it goes and is stopped, obstacles not taken into account.
	entries []world.Entry
	// runtime is what the object uses; nil where it uses none.
	runtime *expression.Reference
	// enforcer says who stops it at its deadline.
	enforcer string
	// What the user may do about it.
	mayChange, mayDelete bool
}

func (o *explainOptions) run(ctx context.Context, out, diagnostics io.Writer) error {
	now := o.now()
	print, err := o.output.printer()
	if err != nil {
		return err
	}
	with, err := readOverlay(ctx, o.with)
	if err != nil {
		return err
	}
	if o.selection.Namespace, err = o.namespace(); err != nil {
		return err
	}
	progress := newProgress(o.surroundings, diagnostics)
	defer progress.done()
	w, selected, err := o.selected(ctx, now, with, o.selection, progress, nil)
	if err != nil {
		return err
	}
	var all []*explained
	for i, one := range selected {
		progress.say("explaining %d of %s", i+1, count(len(selected), "object"))
		said, err := explain(ctx, w, one, now)
		if err != nil {
			return err
		}
		all = append(all, said)
	}
	progress.done()
	if print != nil {
		return print(printedOf(all, w.Notes()), out)
	}
	if err := writeExplained(all, out); err != nil {
		return err
	}
	tellNotes(w.Notes(), diagnostics)
	return nil
}

func explain(ctx context.Context, w *world.World, one world.Selected, now time.Time) (*explained, error) {
	of, err := w.Explain(ctx, one.Kind, one.Object, now)
	if err != nil {
		return nil, err
	}
	out := &explained{kind: one.Kind, object: one.Object, controller: w.Controller, now: now, of: of, runtime: w.Platform().Reference(of.Facts, one.Object)}
	out.enforcer = "its own controller stops it"
	if compiled := w.Platform().Compiled(one.Kind.GroupKind()); compiled != nil && compiled.Enforcement != nil && compiled.Enforcement.By == v1alpha1.EnforcedByCurfew {
		out.enforcer = "Curfew stops it"
	}
	if out.obstacles, err = w.Obstacles(ctx, one.Kind, of); err != nil {
		return nil, err
	}
	if out.obstacles, out.unknown, err = w.Surroundings(ctx, one.Kind, of, out.obstacles, now); err != nil {
		return nil, err
	}
	if out.entries, err = w.Entries(ctx, one.Kind, one.Object, now); err != nil {
		return nil, err
	}
	if out.mayChange, err = w.MayI(ctx, one.Kind, of.Facts.Namespace, of.Facts.Name, "patch"); err != nil {
		return nil, err
	}
	out.mayDelete, err = w.MayI(ctx, one.Kind, of.Facts.Namespace, of.Facts.Name, "delete")
	return out, err
}

// fate is the answer in one sentence.
func (e *explained) fate() string {
	zone := e.now.Location()
	if facts := e.of.Facts; facts.Deleting {
		return fmt.Sprintf("is being deleted, since %s, %s", instant(facts.DeletingSince, zone), relative(facts.DeletingSince, e.now))
	}
	for _, entry := range e.entries {
		if entry.Trigger == policy.TriggerDeadline {
			continue
		}
		by := "by " + ownTTL(entry.Source, "its") + " TTL of " + entry.Value.String() + fromSource(entry.Source)
		if entry.Trigger == policy.TriggerLabel {
			by = fmt.Sprintf("by its label %s=%s", e.of.LabelKey, e.of.Facts.Labels[e.of.LabelKey]) + e.sooner()
		}
		switch {
		case entry.Expiry.IsZero() && entry.ByOutcome && entry.Value.Never:
			return "goes after it has finished, or stays: that depends on how it ends, see below"
		case entry.Expiry.IsZero() && entry.ByOutcome:
			return "goes after it has finished; how long after depends on how it ends, see below"
		case entry.Expiry.IsZero() && entry.Value.Never:
			return "stays: " + ownTTL(entry.Source, "its") + " TTL is never" + fromSource(entry.Source)
		case entry.Expiry.IsZero():
			return fmt.Sprintf("goes %s after it has finished, by %s TTL%s", entry.Value, ownTTL(entry.Source, "the"), fromSource(entry.Source))
		}
		about := ""
		if entry.Estimated {
			about = "about "
		}
		when := about + instant(entry.Expiry, zone) + ", " + relative(entry.Expiry, e.now)
		if e.held() {
			due := "is"
			if !entry.Expiry.After(e.now) {
				due = "was"
			}
			return fmt.Sprintf("stays, although it %s due %s, %s: see what stands in its way", due, when, by)
		}
		if entry.Expiry.Before(e.now.Add(-time.Second)) {
			return fmt.Sprintf("was due %s, %s, and is still there", when, by)
		}
		return fmt.Sprintf("goes %s, %s", when, by)
	}
	if e.kept() {
		return "stays: see what stands in its way"
	}
	return "stays: " + e.whyNot()
}

// sooner says of what has a label and has not finished that its TTL may have it go before, and by when; "" where that cannot be.
func (e *explained) sooner() string {
	fate := change.FateOf(&policy.Explanation{Facts: e.of.Facts, Effective: e.of.Effective, ByTTL: e.of.ByTTL})
	switch {
	case e.of.Facts.Finished || fate.After == nil || fate.After.Never && fate.AfterFailure == nil:
		return ""
	case fate.AfterFailure != nil:
		return ", or sooner where it finishes: how long after depends on how it ends, see below"
	default:
		return ", or " + fate.After.String() + " after it has finished, whichever is sooner"
	}
}

// whyNot is why nothing deletes it.
func (e *explained) whyNot() string {
	if !e.of.Facts.Profile.Finishable() {
		return "it has no TTL label, and " + e.of.ByTTL.Reason
	}
	for _, said := range e.of.TTL {
		if said.Decides && said.Why != "" {
			return "no TTL, as " + said.Source.String() + " decides: " + said.Why
		}
	}
	return "no level gives it a TTL, and it has no TTL label"
}

// held reports whether something stops what it goes by: not a value that cannot be used, of something else that it has.
func (e *explained) held() bool {
	return slices.ContainsFunc(e.obstacles, func(o policy.Obstacle) bool { return o.Stops && o.Kind != policy.ObstacleValue })
}

// kept reports whether the object itself is what stops it, and not only what its controller may do.
func (e *explained) kept() bool {
	return slices.ContainsFunc(e.obstacles, func(o policy.Obstacle) bool {
		return o.Stops && o.Kind != policy.ObstaclePermission && o.Kind != policy.ObstacleDryRun && o.Kind != policy.ObstacleBreaker &&
			o.Kind != policy.ObstacleRefused && o.Kind != policy.ObstacleConflict
	})
}

func (e *explained) stopped() bool {
	for _, obstacle := range e.obstacles {
		if obstacle.Stops {
			return true
		}
	}
	return false
}

// ownTTL and fromSource go around the word TTL: its own TTL, the TTL from namespace "ci".
func ownTTL(source policy.Source, otherwise string) string {
	if source.Level == policy.LevelObject {
		return "its own"
	}
	return otherwise
}

func fromSource(source policy.Source) string {
	if source.Level == policy.LevelObject {
		return ""
	}
	return " from " + source.Phrase()
}

// deadline is when the object is stopped, and by whom; "" where it is not.
func (e *explained) deadline() string {
	for _, entry := range e.entries {
		if entry.Trigger == policy.TriggerDeadline {
			return fmt.Sprintf("%s, %s; %s", instant(entry.Expiry, e.now.Location()), relative(entry.Expiry, e.now), e.enforcer)
		}
	}
	return ""
}
