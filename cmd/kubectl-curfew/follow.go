package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// follow shows what expiring shows, and then what changes, until ctx is done. Where what surrounds the objects changes, a namespace or a
// policy, all is asked anew.
func (o *expiringOptions) follow(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, query *expiringQuery, out, diagnostics io.Writer) error {
	shown := o.newScreen(out, diagnostics)
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			var err error
			if w, err = o.open(ctx, o.now(), query.with, nil); err != nil {
				return ended(ctx, err)
			}
			if kinds, err = o.kinds(w, query); err != nil { // A KindProfile may judge them otherwise by now.
				return ended(ctx, err)
			}
		}
		if err := o.followOnce(ctx, w, kinds, reading, query, shown, diagnostics, first); err != nil {
			return err
		}
	}
	return nil
}

// ended is no error where whoever asked has heard enough.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// followOnce goes on until something around the objects has changed.
func (o *expiringOptions) followOnce(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, query *expiringQuery,
	shown screen, diagnostics io.Writer, first bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	around := make(chan struct{})
	group.Go(func() { w.WatchAround(ctx, kinds, reading.Namespace, func() { close(around) }, cancel) })
	<-around // What is read of it from here on is as new as what is told, or newer.
	news := make(chan told, 256)
	for _, kind := range kinds {
		send := func(one told) {
			select {
			case news <- one:
			case <-ctx.Done():
			}
		}
		group.Go(func() {
			atFirst := error(nil)
			err := w.Watch(ctx, kind, reading, func(change world.Change) { send(told{change: &change}) }, func(err error) {
				atFirst = err
				send(told{listed: true, left: leftOut{kind, err}})
			}, func(err error) {
				send(told{behind: true, left: leftOut{kind, err}})
			})
			if err != nil && atFirst == nil && ctx.Err() == nil {
				send(told{left: leftOut{kind, err}})
			}
		})
	}
	entries := map[types.UID][]world.Entry{}
	behind := map[string]error{} // kinds of which nothing new can be told, and why
	timer := time.NewTicker(time.Second)
	defer timer.Stop()
	var left []leftOut
	for waiting := len(kinds); ; {
		select {
		case <-ctx.Done():
			return nil
		case one := <-news:
			if one.change != nil {
				if err := take(ctx, w, entries, *one.change, o.now()); err != nil {
					return ended(ctx, err)
				}
			}
			if one.behind {
				behind[one.left.kind.GroupResource().String()] = one.left.err
			} else if one.left.err != nil {
				switch {
				case len(query.kinds) > 0, !one.listed && !world.Gone(one.left.err):
					return ended(ctx, one.left.err) // What was shown cannot be told to be true any more.
				case one.listed:
					left = append(left, one.left)
				}
			}
			if one.listed {
				if waiting--; waiting == 0 && first {
					// What was left out is said once it is known.
					if err := noteLeftOut(w, left, kinds, reading); err != nil {
						return err
					}
					tellNotes(w, diagnostics)
				}
			}
			if len(news) > 0 {
				continue // All that is there already is shown at once.
			}
		case <-timer.C:
		}
		if waiting == 0 {
			report := o.matching(query, entries)
			for _, kind := range slices.Sorted(maps.Keys(behind)) {
				if err := behind[kind]; err != nil {
					report.notes = append(report.notes, fmt.Sprintf("%s cannot be watched, and may have changed: %s", kind, oneLine(err.Error())))
				}
			}
			if err := shown.show(report); err != nil {
				return err
			}
		}
	}
}

// told is what a watch of one kind tells. All of it comes by one channel, in its order: what a list brought is taken before its end is, so
// that nothing seems to be gone that has not come yet.
type told struct {
	change *world.Change
	// listed is the end of the first list; behind that nothing new can be told of the kind for now, or can be again. left is the kind, and
	// why it cannot be listed, or watched any longer.
	listed, behind bool
	left           leftOut
}

// take brings what is known of an object up to date.
func take(ctx context.Context, w *world.World, entries map[types.UID][]world.Entry, change world.Change, now time.Time) error {
	if change.Object == nil {
		delete(entries, change.UID)
		return nil
	}
	found, err := w.Entries(ctx, change.Kind, change.Object, now)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		delete(entries, change.UID)
	} else {
		entries[change.UID] = found
	}
	return nil
}

// matching is what is asked about, at this moment: a length of time from now moves on with the time.
func (o *expiringOptions) matching(query *expiringQuery, entries map[types.UID][]world.Entry) *expiringReport {
	now := o.now()
	asked := *query
	if o.within != "" {
		if length, err := policy.ParseDuration(o.within); err == nil {
			span := *query.span
			span.To = now.Add(length).Add(1)
			asked.span = &span
		}
	}
	out := &expiringReport{now: now, everywhere: o.everywhere}
	for _, all := range entries {
		for i := range all {
			if asked.matches(&all[i]) {
				out.entries = append(out.entries, &all[i])
			}
		}
	}
	slices.SortStableFunc(out.entries, byTime)
	return out
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
