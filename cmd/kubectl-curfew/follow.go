package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// A watch lists every relistEvery, and spends at most a tenth of its time on that: it lists a large
// cluster less often.
const (
	relistEvery = 2 * time.Second
	relistShare = 10
)

// follow shows the answer and its changes until ctx is done. While the API server does not answer,
// the last answer stays, with a note.
func (o *expiringOptions) follow(ctx context.Context, query *expiringQuery, out, diagnostics io.Writer) error {
	screen := o.newScreen(query.print, out, diagnostics)
	var last *expiringReport
	away, silent := "", false
	for {
		began := time.Now()
		report, err := o.answer(ctx, o.asOf(query, o.now()), newProgress(o.environment, io.Discard))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if last == nil {
				printNotes(report.notes, diagnostics)
			}
			if err := report.keep(last); err != nil {
				return err
			}
			last, away, silent = report, report.unanswered, false
		case last == nil || world.Refused(err) || world.Gone(err):
			return err
		case !silent:
			silent = true
			away = fmt.Sprintf("no answer since %s, rows may have changed: %s", instant(last.now, last.now.Location()), oneLine(err.Error()))
		}
		if err := o.redraw(ctx, screen, last, away, time.Since(began)); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// redraw shows a report once a second, because the time that is left changes, until it is time to
// list again.
func (o *expiringOptions) redraw(ctx context.Context, screen screen, report *expiringReport, away string, took time.Duration) error {
	ticker, next := time.NewTicker(time.Second), time.NewTimer(max(relistEvery, relistShare*took))
	defer ticker.Stop()
	defer next.Stop()
	for {
		current := *report
		current.now, current.notes = o.now(), nil
		if away != "" {
			current.notes = []string{away}
		}
		if err := screen.show(&current); err != nil {
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
