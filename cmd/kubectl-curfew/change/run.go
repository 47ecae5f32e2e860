package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// Item is one change for programs.
type Item struct {
	Object   console.ObjectData `json:"object"`
	Before   deletionData       `json:"before"`
	After    deletionData       `json:"after"`
	Patch    json.RawMessage    `json:"patch" doc:"the JSON merge patch; {} where the object was already as wanted"`
	Warnings []string           `json:"warnings,omitempty" doc:"what admission would warn about"`
}

type deletionData struct {
	Expiry    *time.Time `json:"expiry" doc:"null where the object stays or has not finished"`
	TTL       string     `json:"ttlAfterFinished,omitempty" doc:"of an object that has not finished"`
	TTLFailed string     `json:"ttlAfterFailed,omitempty" doc:"where it differs after a failure"`
}

// printedChanges are the changes in the forms that programs read.
func printedChanges(changed []*planned, now time.Time) console.Printed {
	var out console.Printed
	var items []Item
	for _, each := range changed {
		if each.Gone != nil {
			continue
		}
		item := changedOf(each, now)
		items, out.Objects = append(items, item), append(out.Objects, item.Object)
	}
	out.Document = console.ListOf("ChangeList", now, items, nil)
	return out
}

func changedOf(each *planned, now time.Time) Item {
	plan := each.plan
	if each.unchanged() {
		plan = &Plan{Patch: map[string]any{}, Before: each.before, After: each.before}
	}
	patch, err := json.Marshal(plan.Patch)
	if err != nil {
		patch = []byte("null") // Plain data always marshals.
	}
	deletion := func(deletion Deletion) deletionData {
		out := deletionData{Expiry: console.TimeData(deletion.Expiry, now)}
		if deletion.After != nil {
			out.TTL = deletion.After.String()
		}
		if deletion.AfterFailure != nil {
			out.TTLFailed = deletion.AfterFailure.String()
		}
		return out
	}
	return Item{
		Object: session.ObjectOf(each.Kind, each.Namespace, each.Name, world.UIDOf(each.Object)),
		Before: deletion(plan.Before), After: deletion(plan.After), Patch: patch, Warnings: plan.Warnings,
	}
}

// preview shows the plans for more than one object, with those that fail, and asks for
// confirmation where the change reaches beyond one object.
func (c *changing) preview(ctx context.Context, call *session.Call, w *world.World, all []*planned, ready int) error {
	if len(all) > 1 {
		if err := printPlans(all, call.Now, call.Diagnostics); err != nil {
			return err
		}
	}
	if ready == 0 || c.yes || c.dryRun != "none" {
		return nil
	}
	question := c.questionOfAll(all, ready)
	if len(all) == 1 {
		var err error
		if question, err = c.questionOf(ctx, w, all[0]); err != nil || question == "" {
			return err
		}
	}
	return c.Confirm(ctx, question, call.In, call.Diagnostics)
}

func printPlans(all []*planned, now time.Time, diagnostics io.Writer) error {
	table := console.NewTable("NAMESPACE", "NAME", "NOW", "THEN")
	for _, each := range all {
		before, then := deletionText(each.before, now), ""
		switch {
		case each.unchanged():
			then = "unchanged: " + each.err.Error()
		case each.err != nil:
			then = "not changed: " + each.err.Error()
		default:
			then = deletionText(each.plan.After, now)
		}
		if each.Gone != nil {
			before = "-"
		}
		console.AddRow(table, nil, console.OrDash(each.Namespace), each.Kind.Name(each.Name), before, then)
	}
	return console.PrintTable(table, printers.PrintOptions{}, diagnostics)
}

// questionOfAll is the question before several objects are changed. It names the Namespaces and the
// other cluster-scoped objects that expire-now deletes among them.
func (c *changing) questionOfAll(all []*planned, ready int) string {
	if !c.atOnce {
		return fmt.Sprintf("Change %s?", console.Count(ready, "object"))
	}
	var namespaces, clusterScoped []string
	for _, each := range all {
		switch {
		case each.err != nil:
		case each.Kind.IsNamespace():
			namespaces = append(namespaces, each.Name)
		case each.Kind.ClusterScoped:
			clusterScoped = append(clusterScoped, each.String())
		}
	}
	question := "Delete " + console.Count(ready, "object")
	if len(clusterScoped) > 0 {
		question += ", among them the cluster-scoped " + session.Some(clusterScoped)
	}
	if len(namespaces) > 0 {
		question += ", with everything in namespaces " + session.Some(namespaces)
	}
	return question + "?"
}

// dependentsUnasked is how many objects expire-now deletes with another one without asking.
const dependentsUnasked = 10

// questionOf is the question before one object is changed, "" for none. Only expire-now asks:
// a mistyped name would delete much that nothing brings back.
func (c *changing) questionOf(ctx context.Context, w *world.World, change *planned) (string, error) {
	switch {
	case !c.atOnce:
		return "", nil
	case change.Kind.IsNamespace():
		return fmt.Sprintf("Delete %s and everything in it?", change), nil
	case change.Kind.ClusterScoped:
		return fmt.Sprintf("Delete %s, which is cluster-scoped?", change), nil
	}
	dependents, forbidden, unread, err := w.Dependents(ctx, change.Namespace, world.UIDOf(change.Object))
	switch {
	case err != nil:
		return "", err
	case len(unread) > 0:
		return fmt.Sprintf("Delete %s and all that it owns? The API server cannot list %s.", change, strings.Join(unread, ", ")), nil
	case len(forbidden) > 0:
		return fmt.Sprintf("Delete %s and all that it owns? You may not list %s: how many of these is not known.",
			change, session.Some(forbidden)), nil
	case dependents <= dependentsUnasked:
		return "", nil
	}
	return fmt.Sprintf("Delete %s and %s that it owns?", change, console.Count(dependents, "object")), nil
}

// deletionText is a deletion such as 2026-11-20 17:00:00 CET, 2d after it finishes, or stays.
func deletionText(deletion Deletion, now time.Time) string {
	switch {
	case !deletion.Expiry.IsZero():
		return console.Instant(deletion.Expiry, now.Location())
	case deletion.AfterFailure != nil:
		return deletion.After.String() + " after it succeeds, " + deletion.AfterFailure.String() + " after it fails"
	case deletion.After != nil:
		return deletion.After.String() + " after it finishes"
	default:
		return "stays"
	}
}

// carryOut writes the plans and prints what came of each. It continues after a failure. An object
// that is already as wanted is no failure.
func (c *changing) carryOut(ctx context.Context, call *session.Call, w *world.World, all []*planned) error {
	var done []*planned
	var interrupted error
	failed := false
	for i, each := range all {
		call.Progress.Say("changing %d of %s", i+1, console.Count(len(all), "object"))
		if interrupted = c.attempt(ctx, w, all, i, call.Progress); interrupted != nil {
			break
		}
		if each.err != nil && !each.unchanged() {
			failed = true
			continue
		}
		done = append(done, each)
		if call.Print == nil {
			call.Progress.Done() // The line itself shows the progress.
			fmt.Fprintln(call.Out, console.OneLine(c.result(each, call.Now)))
		}
	}
	call.Progress.Done()
	if err := c.finish(call, done); err != nil {
		return err
	}
	if interrupted == nil && failed {
		return console.ErrBadNews
	}
	return interrupted
}

// finish prints the changes for programs; people have seen a line for each.
func (c *changing) finish(call *session.Call, done []*planned) error {
	if call.Print == nil {
		return nil
	}
	return call.Print(printedChanges(done, call.Now), call.Out)
}

// result is the line of an object. It names the namespace unless -n does.
func (c *changing) result(each *planned, now time.Time) string {
	name := each.Kind.Name(each.Name)
	if c.selection.Everywhere || len(c.selection.References) > 0 {
		name = each.String()
	}
	if each.unchanged() {
		return name + " unchanged: " + each.err.Error()
	}
	after, before := deletionText(each.plan.After, now), deletionText(each.plan.Before, now)
	return fmt.Sprintf("%s %s: %s (was: %s)%s", name, c.done, after, before, c.dryRun.Mark())
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
			fmt.Fprintln(diagnostics, console.OneLine(fmt.Sprintf("warning: %s: %s", each, warning)))
		}
	case !each.unchanged():
		fmt.Fprintln(diagnostics, console.OneLine(fmt.Sprintf("error: %s: %s", each, each.err)))
	}
	return nil
}

// attempts limits the retries for an object that another client keeps changing.
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
		if world.UIDOf(each.Object) != world.UIDOf(fresh.Object) {
			return errors.New("was deleted and created again in between: check it and try again")
		}
		if each.Object = fresh.Object; !c.selects(each) {
			return fmt.Errorf("changed in between and no longer matches -l %s: it is left as it is", c.selection.Selector)
		}
	}
}

// selects reports whether -l, if given, still selects an object.
func (c *changing) selects(each *planned) bool {
	selector, err := labels.Parse(c.selection.Selector)
	object := unstructured.Unstructured{Object: each.Object}
	return err == nil && selector.Matches(labels.Set(object.GetLabels()))
}

// sendTime is the time that a change is planned for.
func (c *changing) sendTime(ctx context.Context, w *world.World) time.Time {
	if c.atOnce {
		return w.ServerTime(ctx, c.Now())
	}
	return c.Now()
}
