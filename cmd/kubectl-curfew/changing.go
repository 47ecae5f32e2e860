package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// changing are the flags and the course of extend, expire-now and cancel: plan each object, show, ask, and write each with the
// resourceVersion that it was judged by.
type changing struct {
	*connection
	selection world.Selection
	dryRun    string
	yes       bool
	output    string
	// done is what the command says it did: "extended".
	done string
	// atOnce: what is planned goes by its label as soon as nothing stops it, so that a pause of deletions is in its way.
	atOnce bool
	// plan works out what is to be written into one object.
	plan func(subject *change.Subject, obstacles []policy.Obstacle) (*change.Plan, error)
}

func newChanging(around surroundings, done string) *changing {
	return &changing{connection: newConnection(around), dryRun: "none", output: "text", done: done}
}

func (c *changing) addFlags(command *cobra.Command) {
	flags := command.Flags()
	c.add(flags)
	addSelection(flags, &c.selection)
	flags.StringVar(&c.dryRun, "dry-run", c.dryRun, "none, client (nothing is sent) or server (the API server and its webhooks are asked, nothing is stored)")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask before more than one object is changed")
	flags.StringVarP(&c.output, "output", "o", c.output, "format: json, name, text, yaml")
	c.completeFlags(command, map[string][]string{"dry-run": {"client", "none", "server"}, "output": {"json", "name", "text", "yaml"}})
}

// use and examples that the three commands share.
const changingUse = "(KIND/NAME... | KIND NAME... | KIND -l SELECTOR)"

func (c *changing) validate() error {
	var errs []error
	switch c.dryRun {
	case "none", "client", "server":
	default:
		errs = append(errs, fmt.Errorf("--dry-run=%s: give none, client or server", c.dryRun))
	}
	switch c.output {
	case "json", "name", "text", "yaml":
	default:
		errs = append(errs, fmt.Errorf("--output=%s: give json, name, text or yaml", c.output))
	}
	return errors.Join(errs...)
}

// planned is one object with what is to become of it.
type planned struct {
	world.Selected
	namespace, name string
	// before is when it goes as it is.
	before change.Fate
	plan   *change.Plan
	err    error
}

func (p *planned) String() string {
	if p.namespace == "" {
		return p.Kind.Name(p.name)
	}
	return p.Kind.Name(p.name) + " in namespace " + p.namespace
}

// run is the course of all three commands.
func (c *changing) run(cmd *cobra.Command, args []string) error {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, now := cmd.Context(), c.now()
	out, diagnostics := cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.selection.Args = args
	var err error
	if c.selection.Namespace, err = c.namespace(); err != nil {
		return err
	}
	progress := newProgress(c.surroundings, diagnostics)
	defer progress.done()
	w, selected, err := c.selected(ctx, now, overlay{}, c.selection, progress, progress)
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
	tellNotes(w.Notes(), diagnostics)
	if err := c.preview(ctx, all, ready, now, cmd.InOrStdin(), diagnostics); err != nil {
		return err
	}
	progress.again()
	return c.carryOut(ctx, w, all, now, out, progress)
}

func (c *changing) planOne(ctx context.Context, w *world.World, one world.Selected, now time.Time) (*planned, error) {
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
		obstacles = append(obstacles, paused...)
	}
	out := &planned{Selected: one, namespace: explained.Facts.Namespace, name: explained.Facts.Name, before: change.FateOf(explained)}
	out.plan, out.err = c.plan(&change.Subject{Object: one.Object, Explained: explained, Alias: w.Controller.Alias, Now: now}, obstacles)
	return out, nil
}

// preview shows what is to be done where it is more than one, and asks. Those that cannot be done are told beside it.
func (c *changing) preview(ctx context.Context, all []*planned, ready int, now time.Time, in io.Reader, diagnostics io.Writer) error {
	if len(all) == 1 {
		return nil
	}
	rows := [][]string{{"NAMESPACE", "NAME", "NOW", "THEN"}}
	for _, each := range all {
		then := ""
		if each.err != nil {
			then = "not changed: " + each.err.Error()
		} else {
			then = fateText(each.plan.After, now)
		}
		rows = append(rows, []string{orDash(each.namespace), each.Kind.Name(each.name), fateText(each.before, now), then})
	}
	if err := table(diagnostics, rows); err != nil {
		return err
	}
	if ready == 0 || c.yes || c.dryRun != "none" {
		return nil
	}
	if !c.terminal(in) {
		return fmt.Errorf("%s would be changed, and nobody can be asked: add --yes, or look first with --dry-run=server", count(ready, "object"))
	}
	fmt.Fprintf(diagnostics, "Change %s? [y/N] ", count(ready, "object"))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
	case <-ctx.Done(): // Ctrl-C is an answer, too.
		fmt.Fprintln(diagnostics)
	}
	return errors.New("nothing was changed")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// fateText is when an object goes: 2026-11-20 17:00:00 CET, 2d after it finishes, stays.
func fateText(fate change.Fate, now time.Time) string {
	switch {
	case !fate.Expiry.IsZero():
		return instant(fate.Expiry, now.Location())
	case fate.AfterFailure != nil:
		return fate.After.String() + " after it succeeds, " + fate.AfterFailure.String() + " after it fails"
	case fate.After != nil:
		return fate.After.String() + " after it finishes"
	default:
		return "stays"
	}
}

// carryOut writes the plans and says what came of each. It goes on after a failure.
func (c *changing) carryOut(ctx context.Context, w *world.World, all []*planned, now time.Time, out io.Writer, progress *progress) error {
	data := changedData{Items: []changedItem{}}
	failed := false
	var interrupted error
	for i, each := range all {
		if ctx.Err() != nil {
			interrupted = fmt.Errorf("interrupted before object %d of %d: those before it are changed", i+1, len(all))
			break
		}
		progress.say("changing %d of %s", i+1, count(len(all), "object"))
		foreseen := each.err != nil
		if !foreseen {
			each.err = c.write(ctx, w, each)
		}
		if each.err != nil && ctx.Err() != nil {
			interrupted = fmt.Errorf("interrupted at object %d of %d, %s, which may be changed: those before it are", i+1, len(all), each)
			break
		}
		if nothing := (*change.NothingError)(nil); len(all) > 1 && errors.As(each.err, &nothing) {
			if !foreseen { // Else the preview said so.
				fmt.Fprintf(progress, "warning: %s: %s\n", each, oneLine(each.err.Error()))
			}
			continue
		}
		if each.err != nil {
			failed = true
			fmt.Fprintf(progress, "error: %s: %s\n", each, oneLine(each.err.Error()))
			continue
		}
		for _, warning := range each.plan.Warnings {
			fmt.Fprintf(progress, "warning: %s: %s\n", each, oneLine(warning))
		}
		switch c.output {
		case "name":
			progress.done() // The lines tell of it themselves.
			fmt.Fprintln(out, each.Kind.Name(each.name))
		case "text":
			progress.done()
			fmt.Fprintf(out, "%s %s: %s (was: %s)%s\n", each.Kind.Name(each.name), c.done,
				fateText(each.plan.After, now), fateText(each.plan.Before, now), c.mode())
		default:
			data.Items = append(data.Items, changedOf(each, now))
		}
	}
	progress.done()
	var err error
	switch c.output {
	case "json":
		err = asJSON(data, out)
	case "yaml":
		err = asYAML(data, out)
	}
	switch {
	case err != nil:
		return err
	case interrupted != nil:
		return interrupted
	case failed:
		return errBadNews
	default:
		return nil
	}
}

// mode is how kubectl says that nothing was stored.
func (c *changing) mode() string {
	switch c.dryRun {
	case "client":
		return " (dry run)"
	case "server":
		return " (server dry run)"
	}
	return ""
}

// attempts are how often an object is looked at anew that somebody else changed in between.
const attempts = 5

// write sends one plan, which is made anew by the time that it is by now: whoever was asked may have taken theirs to answer, and what
// expires now has to expire then. Where the object has changed since, it is read, planned and sent again.
func (c *changing) write(ctx context.Context, w *world.World, each *planned) error {
	if c.dryRun == "client" {
		return nil
	}
	for left := attempts; ; left-- {
		again, err := c.planOne(ctx, w, each.Selected, c.now())
		if err != nil {
			return err
		}
		if again.err != nil {
			return again.err
		}
		each.plan = again.plan
		err = w.Patch(ctx, each.Kind, each.Object, each.plan.Patch, c.dryRun == "server")
		if !apierrors.IsConflict(err) || left == 1 {
			return err
		}
		fresh, err := w.Get(ctx, each.Kind, each.namespace, each.name)
		if err != nil {
			return err
		}
		if !world.Same(each.Object, fresh.Object) {
			return errors.New("was deleted and made anew in between: look at it again")
		}
		each.Object = fresh.Object
	}
}

// changedData is what was done, for programs.
type changedData struct {
	Items []changedItem `json:"items"`
}

type changedItem struct {
	Object   objectData      `json:"object"`
	Before   fateData        `json:"before"`
	After    fateData        `json:"after"`
	Patch    json.RawMessage `json:"patch"`
	Warnings []string        `json:"warnings,omitempty"`
}

type fateData struct {
	Expiry *time.Time `json:"expiry"`
	// TTL after it finishes, where it has not; TTLFailed after it fails, where that differs.
	TTL       string `json:"ttlAfterFinished,omitempty"`
	TTLFailed string `json:"ttlAfterFailed,omitempty"`
}

func changedOf(each *planned, now time.Time) changedItem {
	patch, err := json.Marshal(each.plan.Patch)
	if err != nil {
		patch = []byte("null") // Plain data always marshals.
	}
	fate := func(of change.Fate) fateData {
		out := fateData{Expiry: timeData(of.Expiry, now)}
		if of.After != nil {
			out.TTL = of.After.String()
		}
		if of.AfterFailure != nil {
			out.TTLFailed = of.AfterFailure.String()
		}
		return out
	}
	return changedItem{
		Object: objectData{APIVersion: each.Kind.GroupVersion().String(), Kind: each.Kind.Kind, Namespace: each.namespace, Name: each.name},
		Before: fate(each.plan.Before), After: fate(each.plan.After), Patch: patch, Warnings: each.plan.Warnings,
	}
}
