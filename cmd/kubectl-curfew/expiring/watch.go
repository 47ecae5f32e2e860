package expiring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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
	screen := newLines(o.view(), call.Out, call.Diagnostics)
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
			report.keep(last)
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
func (r *expiringReport) keep(last *expiringReport) {
	if last == nil || len(r.unlisted)+len(r.silent) == 0 {
		return
	}
	for _, entry := range last.entries {
		if slices.Contains(r.unlisted, entry.Kind.GroupResource()) || slices.Contains(r.silent, entry.Kind.Group) {
			r.entries = append(r.entries, entry)
		}
	}
	r.sort()
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
	// shown are the rows of the last round by their key, without the time that is left.
	shown map[string][]string
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
	s := &asLines{out: out, noteLines: noteLines{out: diagnostics}, view: view, shown: map[string][]string{}}
	printer, writer := printers.NewTablePrinter(view.options()), printers.GetNewTabWriter(&s.text)
	s.printRows = func(table *metav1.Table) error { return errors.Join(printer.PrintObj(table, writer), writer.Flush()) }
	return s
}

func (s *asLines) show(report *expiringReport) error {
	s.noteLines.print(report.notes)
	header := report.header(s.view)
	table := console.NewTable(append([]string{"EVENT"}, header...)...)
	s.update(report, slices.Index(header, "LEFT"), func(event string, entry *world.Entry, row []string) {
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

// update takes the rows of a report. It passes those that are new or changed to take, then those
// that are gone, with an empty entry.
func (s *asLines) update(report *expiringReport, left int, take func(event string, entry *world.Entry, row []string)) {
	current := map[string]bool{}
	for _, entry := range report.entries {
		key, row := keyOf(entry), report.row(entry, s.view)
		current[key] = true
		lasting := slices.Clone(row)
		lasting[left] = "-"
		switch was, known := s.shown[key]; {
		case !known:
			take(eventNew, entry, row)
		case !slices.Equal(was, lasting):
			take(eventChanged, entry, row)
		}
		s.shown[key] = lasting
	}
	for _, key := range slices.Sorted(maps.Keys(s.shown)) {
		if !current[key] {
			take(eventGone, &world.Entry{}, s.shown[key])
			delete(s.shown, key)
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
