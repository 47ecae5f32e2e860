package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// carryOut writes the plans and prints what came of each. It continues after a failure. An object
// that is already as wanted is no failure.
func (c *changing) carryOut(ctx context.Context, w *world.World, all []*planned, print printFunc, now time.Time, out io.Writer, progress *progress) error {
	var done []*planned
	var interrupted error
	failed := false
	for i, each := range all {
		progress.say("changing %d of %s", i+1, count(len(all), "object"))
		if interrupted = c.attempt(ctx, w, all, i, progress); interrupted != nil {
			break
		}
		if each.err != nil && !each.unchanged() {
			failed = true
			continue
		}
		done = append(done, each)
		if print == nil {
			progress.done() // The line itself shows the progress.
			fmt.Fprintln(out, c.result(each, now))
		}
	}
	progress.done()
	if print != nil {
		if err := print(printedChanges(done, now), out); err != nil {
			return err
		}
	}
	switch {
	case interrupted != nil:
		return interrupted
	case failed:
		return errBadNews
	default:
		return nil
	}
}

// result is the line of an object. It names the namespace unless -n does.
func (c *changing) result(each *planned, now time.Time) string {
	name := each.Kind.Name(each.Name)
	if c.selection.Everywhere || len(c.selection.References) > 0 {
		name = each.String()
	}
	if each.unchanged() {
		return name + " unchanged: " + oneLine(each.err.Error())
	}
	return fmt.Sprintf("%s %s: %s (was: %s)%s", name, c.done, deletionText(each.plan.After, now), deletionText(each.plan.Before, now), c.mode())
}

// attempt writes one plan and reports errors and warnings to diagnostics. It fails only where the
// user interrupted it.
func (c *changing) attempt(ctx context.Context, w *world.World, all []*planned, i int, diagnostics io.Writer) error {
	each := all[i]
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before object %d of %d: those before it are changed", i+1, len(all))
	}
	if each.err == nil {
		each.err = c.write(ctx, w, each)
	}
	if each.err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted at object %d of %d, %s, which may be changed: those before it are", i+1, len(all), each)
	}
	switch {
	case each.err == nil:
		for _, warning := range each.plan.Warnings {
			fmt.Fprintf(diagnostics, "warning: %s: %s\n", each, oneLine(warning))
		}
	case !each.unchanged():
		fmt.Fprintf(diagnostics, "error: %s: %s\n", each, oneLine(each.err.Error()))
	}
	return nil
}

// mode marks a dry run, as kubectl does.
func (c *changing) mode() string {
	switch c.dryRun {
	case "client":
		return " (dry run)"
	case "server":
		return " (server dry run)"
	}
	return ""
}

// attempts limits the retries for an object that somebody else keeps changing.
const attempts = 5

// write patches one object. It plans again at the present time, because the confirmation may have
// taken long. After a conflict it reads the object and tries again. Admission denies a label that
// is expired: for expire-now the API server's clock counts, and a label that expired on its way is
// sent again.
func (c *changing) write(ctx context.Context, w *world.World, each *planned) error {
	if c.dryRun == "client" {
		return nil
	}
	for left := attempts; ; left-- {
		again, err := c.planOne(ctx, w, each.Selected, c.sendTime(ctx, w))
		if err != nil {
			return err
		}
		if again.err != nil {
			return again.err
		}
		each.plan = again.plan
		err = w.Patch(ctx, each.Kind, each.Object, each.plan.Patch, c.dryRun == "server")
		tooSlow := c.atOnce && apierrors.IsForbidden(err) && !c.sendTime(ctx, w).Before(each.plan.After.Expiry)
		if left == 1 || !tooSlow && !apierrors.IsConflict(err) {
			return err
		}
		if tooSlow {
			continue
		}
		fresh, err := w.Get(ctx, each.Kind, each.Namespace, each.Name)
		if err != nil {
			return err
		}
		if !world.Same(each.Object, fresh.Object) {
			return errors.New("was deleted and created again in between: check it and try again")
		}
		each.Object = fresh.Object
	}
}

// sendTime is the time that a change is planned for.
func (c *changing) sendTime(ctx context.Context, w *world.World) time.Time {
	if c.atOnce {
		return w.ServerTime(ctx, c.now())
	}
	return c.now()
}
