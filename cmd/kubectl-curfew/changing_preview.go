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
)

// preview shows the plans for more than one object, with those that fail, and asks for
// confirmation.
func (c *changing) preview(ctx context.Context, all []*planned, ready int, now time.Time, in io.Reader, diagnostics io.Writer) error {
	if len(all) == 1 {
		return nil
	}
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
	if err := printTable(table, printers.PrintOptions{}, diagnostics); err != nil {
		return err
	}
	if ready == 0 || c.yes || c.dryRun != "none" {
		return nil
	}
	if !c.terminal(in) {
		return fmt.Errorf("%s would be changed, and stdin is not a terminal: pass --yes, or preview with --dry-run=server", count(ready, "object"))
	}
	return c.confirm(ctx, fmt.Sprintf("Change %s?", count(ready, "object")), in, diagnostics)
}

// confirm asks the person at the terminal.
func (c *connection) confirm(ctx context.Context, question string, in io.Reader, diagnostics io.Writer) error {
	if !c.terminal(in) {
		return errors.New("stdin is not a terminal: pass --yes")
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
