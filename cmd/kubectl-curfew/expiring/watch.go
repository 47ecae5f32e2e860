package expiring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// A watch lists every relistEvery, and spends at most a tenth of its time on that: it lists a large
// cluster less often.
const (
	relistEvery = 2 * time.Second
	relistShare = 10
)

// follow prints the answer, and then its changes, until ctx is done. While the API server does not
// answer, no row changes, and a note says so.
func (o *expiringOptions) follow(ctx context.Context, query *expiringQuery, call *session.Call) error {
	screen := o.newScreen(call)
	var last *expiringReport
	silent := false
	for {
		began := time.Now()
		report, err := o.answer(ctx, o.asOf(query, o.Now()), console.NewProgress(o.Environment, io.Discard))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if last == nil {
				console.PrintNotes(report.notes, call.Diagnostics)
			}
			if err := report.keep(last); err != nil {
				return err
			}
			if report.notes = nil; report.unanswered != "" {
				report.notes = []string{report.unanswered}
			}
			last, silent = report, false
		case last == nil || world.Refused(err) || world.Gone(err):
			return err
		case !silent:
			silent = true
			last.notes = []string{fmt.Sprintf("no answer since %s, rows may have changed: %s",
				console.Instant(last.now, last.now.Location()), console.OneLine(err.Error()))}
		}
		if err := screen.show(last); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(relistEvery, relistShare*time.Since(began))):
		}
	}
}

// asOf is the query at another time, which moves --within a duration.
func (o *expiringOptions) asOf(query *expiringQuery, now time.Time) *expiringQuery {
	out := *query
	out.now = now
	if span, err := moment.ParseWithin(o.within, now); o.within != "" && err == nil {
		out.span = &span
	}
	return &out
}

// keep keeps the rows of kinds that cannot be listed any more: their objects may still exist.
func (r *expiringReport) keep(last *expiringReport) error {
	if last == nil || len(r.unlisted)+len(r.silent) == 0 {
		return nil
	}
	for _, entry := range last.entries {
		if slices.Contains(r.unlisted, entry.Kind.GroupResource()) || slices.Contains(r.silent, entry.Kind.Group) {
			r.entries = append(r.entries, entry)
		}
	}
	return r.sort()
}

// screen shows a report and then later ones.
type screen interface {
	show(report *expiringReport) error
}

func (o *expiringOptions) newScreen(call *session.Call) screen {
	if call.Print != nil {
		return &asDocuments{out: call.Out, noteLines: noteLines{out: call.Diagnostics}, PrintFunc: call.Print, shown: rows[Item]{}}
	}
	return newLines(o.view(), call.Out, call.Diagnostics)
}

// asLines writes a line for each change, and notes beside them.
type asLines struct {
	noteLines
	out  io.Writer
	view view
	// printRows appends a table to text. It writes the header once, and remembers how wide the
	// columns were.
	printRows func(table *metav1.Table) error
	text      bytes.Buffer
	shown     rows[[]string]
}

// noteLines prints each note once, while it lasts.
type noteLines struct {
	out   io.Writer
	notes []string
}

func (n *noteLines) print(notes []string) {
	for _, note := range notes {
		if !slices.Contains(n.notes, note) {
			fmt.Fprintln(n.out, "note:", console.OneLine(note))
		}
	}
	n.notes = notes
}

func newLines(view view, out, diagnostics io.Writer) *asLines {
	s := &asLines{out: out, noteLines: noteLines{out: diagnostics}, view: view, shown: rows[[]string]{}}
	printer, writer := printers.NewTablePrinter(view.options()), printers.GetNewTabWriter(&s.text)
	s.printRows = func(table *metav1.Table) error { return errors.Join(printer.PrintObj(table, writer), writer.Flush()) }
	return s
}

func (s *asLines) show(report *expiringReport) error {
	s.noteLines.print(report.notes)
	header := report.header(s.view)
	table := console.NewTable(append([]string{"EVENT"}, header...)...)
	left := slices.Index(header, "LEFT")
	s.shown.update(report, func(i int) (row, lasting []string) {
		row = report.row(report.entries[i], s.view)
		lasting = slices.Clone(row)
		lasting[left] = "-"
		return row, lasting
	}, func(event string, entry *world.Entry, row []string) {
		console.AddRow(table, entry.Labels, append([]string{event}, row...)...)
	})
	if err := s.printRows(table); err != nil {
		return err
	}
	_, err := s.text.WriteTo(s.out)
	return err
}

// What happened to a row since the last round of --watch.
const (
	eventNew     = "NEW"
	eventChanged = "CHANGED"
	eventGone    = "GONE"
)

// rows are the rows of the last round by their key, without the time that is left.
type rows[T any] map[string]T

// update takes the rows of a report. It passes those that are new or changed to take, then those
// that are gone, with an empty entry.
func (r rows[T]) update(report *expiringReport, rowOf func(i int) (row, lasting T), take func(event string, entry *world.Entry, row T)) {
	current := map[string]bool{}
	for i, entry := range report.entries {
		key := keyOf(entry)
		current[key] = true
		row, lasting := rowOf(i)
		switch was, known := r[key]; {
		case !known:
			take(eventNew, entry, row)
		case !reflect.DeepEqual(was, lasting):
			take(eventChanged, entry, row)
		}
		r[key] = lasting
	}
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if !current[key] {
			take(eventGone, &world.Entry{}, r[key])
			delete(r, key)
		}
	}
}

// keyOf names a row across rounds: an object has one for its expiry, one for its deadline, and one
// for each cleanup policy that matches it.
func keyOf(entry *world.Entry) string {
	key := string(entry.UID) + " " + string(entry.Trigger)
	if entry.Trigger == policy.TriggerCleanup {
		key += " " + entry.Source.String()
	}
	return key
}

// asDocuments prints a list of the rows that changed, each time that some did. Its first list has
// all rows.
type asDocuments struct {
	noteLines
	console.PrintFunc
	out   io.Writer
	began bool
	shown rows[Item]
}

func (s *asDocuments) show(report *expiringReport) error {
	s.print(report.notes)
	var changed []Item
	items := report.items()
	s.shown.update(report, func(i int) (row, lasting Item) {
		lasting = items[i]
		lasting.Left = nil
		return items[i], lasting
	}, func(event string, _ *world.Entry, row Item) {
		row.Event = event
		changed = append(changed, row)
	})
	if s.began && len(changed) == 0 {
		return nil
	}
	s.began = true
	return s.PrintFunc(console.Printed{Document: console.ListOf("ExpiryList", report.now, changed, report.notes)}, s.out)
}
