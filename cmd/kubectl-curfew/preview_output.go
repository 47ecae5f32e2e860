package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
)

// previewAnswer is what a run of a policy would do.
type previewAnswer struct {
	*preview.Result
	// offline: no cluster was asked. file: the policy is not read from a cluster. own: objects were
	// listed with the user's own rights.
	offline, file, own bool
	// account is whose rights the policy has; empty if no cluster was asked.
	account string
	// waits: nobody has approved the policy as it is. controllerDryRun is --dry-run.
	waits, controllerDryRun bool
	notes                   []string
}

func (a *previewAnswer) note(format string, values ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, values...))
}

// addNotes adds what else decides whether the policy deletes.
func (a *previewAnswer) addNotes() {
	p := a.Policy
	switch {
	case a.offline:
		a.note("manifests have no permissions: whether the service account may delete the objects is not known")
	case a.own:
		a.note("you may not impersonate service account %s: this shows what you may list, and the policy deletes what that account may delete", a.account)
	}
	switch {
	case p.Spec.Suspend:
		a.note("the policy is suspended: it does not run")
	case a.controllerDryRun:
		a.note("the controller runs with --dry-run: the policy deletes nothing")
	case p.Spec.DryRun:
		a.note("the policy has dryRun: true: it deletes nothing")
	case a.waits:
		a.note("nobody has approved the policy as it is now: it deletes nothing until somebody does (kubectl curfew approve)")
	}
	if a.file && p.Consecutive() {
		a.note("the policy is read from a file: this is its first run, and consecutiveRuns keeps all that it matches")
	}
	whose := "the service account"
	if a.own {
		whose = "you"
	}
	for _, lack := range a.Lacks {
		a.note("%s may not %s: nothing is shown from there", whose, lack)
	}
	for _, one := range a.Unlisted {
		a.note("%s: nothing is shown from there, and a run keeps what it cannot list", one)
	}
}

// print writes the preview for people; wide lists each object. On a terminal it fits the width.
func (a *previewAnswer) print(out io.Writer, wide, noHeaders bool, width int) error {
	fmt.Fprintln(out, a.title())
	var tables []*metav1.Table
	if groups := a.Groups(); len(groups) > 0 {
		table := newTable("KIND", "NAMESPACE", "COUNT")
		for _, each := range groups {
			addRow(table, nil, kindText(each.Group, each.Kind), orDash(each.Namespace), strconv.Itoa(each.Count))
		}
		tables = append(tables, table)
	}
	if len(a.Skipped) > 0 {
		table := newTable("SKIPPED", "COUNT", "FOR EXAMPLE")
		for _, each := range a.Skipped {
			addRow(table, nil, each.Reason, strconv.FormatInt(each.Count, 10), each.Message)
		}
		tables = append(tables, table)
	}
	if wide && len(a.Objects) > 0 {
		table := newTable("KIND", "NAMESPACE", "NAME", "RESULT", "REASON")
		for _, each := range a.Objects {
			addRow(table, nil, kindText(each.Group, each.Kind), orDash(each.Namespace), each.Name, a.result(each), orDash(each.Message))
		}
		tables = append(tables, table)
	}
	for _, table := range tables {
		if !wide {
			fit(table, width)
		}
		fmt.Fprintln(out)
		if err := printTable(table, printers.PrintOptions{NoHeaders: noHeaders}, out); err != nil {
			return err
		}
	}
	return a.printRuns(out)
}

func (a *previewAnswer) printRuns(out io.Writer) error {
	if len(a.Upcoming) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nNext runs, by schedule %q in %s:\n", a.Policy.Spec.Schedule, a.Policy.Schedule.Location())
	var rows [][]string
	for _, at := range a.Upcoming {
		rows = append(rows, []string{"  " + at.Format("Mon 2006-01-02 15:04 MST"), relative(at, a.Now)})
	}
	return printAligned(out, rows)
}

// title is what there is to say of the run as a whole.
func (a *previewAnswer) title() string {
	name := policyName(a.Policy)
	if a.Policy.Namespace != "" {
		name += fmt.Sprintf(" in namespace %q", a.Policy.Namespace)
	}
	if a.Stalled != nil {
		return fmt.Sprintf("%s: would delete nothing\n%s: %s", name, a.Stalled.Reason, strings.Replace(a.Stalled.Error(), "was deleted", "is deleted", 1))
	}
	return fmt.Sprintf("%s: would delete %d of %s", name, a.Deleted, count(int(a.Listed), "object"))
}

// Results of objects.
const (
	wouldDelete = "WouldDelete"
	resultSkip  = "Skipped"
	resultStall = "Stalled"
)

func (a *previewAnswer) result(object preview.Object) string {
	switch {
	case object.Reason != "":
		return resultSkip
	case a.Stalled != nil:
		return resultStall
	default:
		return wouldDelete
	}
}
