package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// A watch lists again every relistEvery, and spends at most a tenth of its time on that: a large cluster is asked less often.
const (
	relistEvery = 2 * time.Second
	relistShare = 10
)

// follow shows the answer, and then what changes, until ctx is done. While the API server does not answer, what was shown last
// stays, with one note.
func (o *expiringOptions) follow(ctx context.Context, query *expiringQuery, out, diagnostics io.Writer) error {
	shown := o.newScreen(out, diagnostics)
	var last *expiringReport
	away := ""
	for {
		began := time.Now()
		report, err := o.answer(ctx, o.asOf(query, o.now()), newProgress(o.surroundings, io.Discard))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if last == nil {
				tellNotes(report.notes, diagnostics)
			}
			report.keep(last)
			last, away = report, ""
		case last == nil || world.Refused(err) || world.Gone(err):
			return err
		case away == "":
			away = fmt.Sprintf("no answer since %s, rows may have changed: %s", instant(last.now, last.now.Location()), oneLine(err.Error()))
		}
		if err := o.redraw(ctx, shown, last, away, time.Since(began)); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// redraw shows a report, once a second since the time that is left runs, until it is time to list again.
func (o *expiringOptions) redraw(ctx context.Context, shown screen, report *expiringReport, away string, took time.Duration) error {
	ticker, next := time.NewTicker(time.Second), time.NewTimer(max(relistEvery, relistShare*took))
	defer ticker.Stop()
	defer next.Stop()
	for {
		current := *report
		current.now, current.notes = o.now(), nil
		if away != "" {
			current.notes = []string{away}
		}
		if err := shown.show(&current); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			return nil
		case <-ticker.C:
		}
	}
}

// asOf is the query at another time: --within moves on with it.
func (o *expiringOptions) asOf(query *expiringQuery, now time.Time) *expiringQuery {
	out := *query
	out.now = now
	if length, err := policy.ParseDuration(o.within); o.within != "" && err == nil {
		out.span = &moment.Span{To: now.Add(length).Add(1)}
	}
	return &out
}

// keep takes over the rows of kinds that could be listed before and now cannot: nothing says that they are gone.
func (r *expiringReport) keep(last *expiringReport) {
	if last == nil || len(r.unlisted) == 0 {
		return
	}
	for _, entry := range last.entries {
		if slices.Contains(r.unlisted, entry.Kind.GroupResource()) {
			r.entries = append(r.entries, entry)
		}
	}
	slices.SortStableFunc(r.entries, byTime)
}

// screen shows a report and then later ones.
type screen interface {
	show(report *expiringReport) error
}

func (o *expiringOptions) newScreen(out, diagnostics io.Writer) screen {
	wide := o.output == "wide"
	if file, ok := out.(*os.File); ok && o.terminal(out) {
		return &inPlace{out: out, wide: wide, size: func() (int, int) {
			width, height, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 0, 0
			}
			return width, height
		}}
	}
	return &asLines{out: out, diagnostics: diagnostics, wide: wide, told: map[string][]string{}}
}

// inPlace overwrites what it showed before.
type inPlace struct {
	out  io.Writer
	wide bool
	size func() (width, height int)
	// lines that stand on the screen.
	lines int
}

func (s *inPlace) show(report *expiringReport) error {
	width, height := s.size()
	rows := report.rows(s.wide)
	if len(rows) == 0 {
		rows = [][]string{{"nothing, at " + instant(report.now, report.now.Location())}}
	}
	layout := columns{}
	layout.learn(rows)
	var lines []string
	for _, note := range report.notes {
		lines = append(lines, cut("note: "+note, width)) // at the top, where they are not cut off
	}
	for _, row := range rows {
		lines = append(lines, cut(layout.line(row), width))
	}
	if most := height - 2; height > 2 && len(lines) > most {
		more := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more", more))
	}
	text := ""
	if s.lines > 0 {
		text = fmt.Sprintf("\x1b[%dA\x1b[J", s.lines)
	}
	for _, line := range lines {
		text += line + "\n"
	}
	s.lines = len(lines)
	_, err := io.WriteString(s.out, text)
	return err
}

// asLines writes a line for each change, and notes beside them.
type asLines struct {
	out, diagnostics io.Writer

	wide   bool
	layout columns
	// told are the rows that hold, by object and trigger, without the time that is left.
	told  map[string][]string
	began bool
	// notes that hold.
	notes []string
}

func (s *asLines) show(report *expiringReport) error {
	for _, note := range report.notes {
		if !slices.Contains(s.notes, note) {
			fmt.Fprintln(s.diagnostics, "note:", note)
		}
	}
	s.notes = report.notes
	matching := map[string]bool{}
	var rows [][]string
	at := slices.Index(report.header(s.wide), "LEFT")
	for _, entry := range report.entries {
		key := string(entry.UID) + " " + string(entry.Trigger)
		matching[key] = true
		cells := report.row(entry, report.now, s.wide)
		lasting := slices.Clone(cells)
		lasting[at] = "-"
		was, known := s.told[key]
		switch {
		case !known:
			rows = append(rows, append([]string{"NEW"}, cells...))
		case !slices.Equal(was, lasting):
			rows = append(rows, append([]string{"CHANGED"}, cells...))
		}
		s.told[key] = lasting
	}
	for _, key := range slices.Sorted(maps.Keys(s.told)) {
		if !matching[key] {
			rows = append(rows, append([]string{"GONE"}, s.told[key]...))
			delete(s.told, key)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if !s.began {
		s.began = true
		rows = append([][]string{append([]string{"EVENT"}, report.header(s.wide)...)}, rows...)
	}
	s.layout.learn(rows)
	for _, row := range rows {
		if _, err := fmt.Fprintln(s.out, s.layout.line(row)); err != nil {
			return err
		}
	}
	return nil
}
