package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// preview shows the plans for more than one object, with those that fail, and asks for
// confirmation where the change reaches beyond one object.
func (c *changing) preview(ctx context.Context, w *world.World, all []*planned, ready int, now time.Time, in io.Reader, diagnostics io.Writer) error {
	if len(all) > 1 {
		if err := printPlans(all, now, diagnostics); err != nil {
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
	return c.confirm(ctx, question, in, diagnostics)
}

func printPlans(all []*planned, now time.Time, diagnostics io.Writer) error {
	table := newTable("NAMESPACE", "NAME", "NOW", "THEN")
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
		addRow(table, nil, orDash(each.Namespace), each.Kind.Name(each.Name), before, then)
	}
	return printTable(table, printers.PrintOptions{}, diagnostics)
}

// questionOfAll is the question before several objects are changed. It names the Namespaces that
// expire-now deletes among them.
func (c *changing) questionOfAll(all []*planned, ready int) string {
	question := fmt.Sprintf("Change %s?", count(ready, "object"))
	var namespaces []string
	for _, each := range all {
		if c.atOnce && each.err == nil && each.Kind.IsNamespace() {
			namespaces = append(namespaces, each.Name)
		}
	}
	if len(namespaces) > 0 {
		question = fmt.Sprintf("Delete %s, with everything in namespaces %s?", count(ready, "object"), some(namespaces))
	}
	return question
}

// dependentsUnasked is how many objects expire-now deletes with another one without asking.
const dependentsUnasked = 10

// questionOf is the question before one object is changed, "" for none. Only expire-now asks:
// a mistyped name would delete much that nothing brings back.
func (c *changing) questionOf(ctx context.Context, w *world.World, one *planned) (string, error) {
	switch {
	case !c.atOnce:
		return "", nil
	case one.Kind.IsNamespace():
		return fmt.Sprintf("Delete %s and everything in it?", one), nil
	case one.Kind.ClusterScoped:
		return fmt.Sprintf("Delete %s, which is cluster-scoped?", one), nil
	}
	dependents, forbidden, unread, err := w.Dependents(ctx, one.Namespace, world.UIDOf(one.Object))
	switch {
	case err != nil:
		return "", err
	case len(unread) > 0:
		return fmt.Sprintf("Delete %s and all that it owns? The API server cannot list %s.", one, strings.Join(unread, ", ")), nil
	case len(forbidden) > 0:
		return fmt.Sprintf("Delete %s and all that it owns? You may not list %s: how many of these is not known.", one, some(forbidden)), nil
	case dependents <= dependentsUnasked:
		return "", nil
	}
	return fmt.Sprintf("Delete %s and %s that it owns?", one, count(dependents, "object")), nil
}

// confirm asks the person at the terminal.
func (c *connection) confirm(ctx context.Context, question string, in io.Reader, diagnostics io.Writer) error {
	if !c.terminal(in) {
		return errors.New("stdin is not a terminal; pass --yes")
	}
	fmt.Fprint(diagnostics, question, " [y/N] ")
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
	case <-ctx.Done(): // Ctrl-C means no.
		fmt.Fprintln(diagnostics)
	}
	return errDeclined
}

// deletionText is a deletion such as 2026-11-20 17:00:00 CET, 2d after it finishes, or stays.
func deletionText(deletion change.Deletion, now time.Time) string {
	switch {
	case !deletion.Expiry.IsZero():
		return instant(deletion.Expiry, now.Location())
	case deletion.AfterFailure != nil:
		return deletion.After.String() + " after it succeeds, " + deletion.AfterFailure.String() + " after it fails"
	case deletion.After != nil:
		return deletion.After.String() + " after it finishes"
	default:
		return "stays"
	}
}
