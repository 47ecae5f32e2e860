package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

// screen shows a report and then later ones.
type screen interface {
	show(report *expiringReport) error
}

func (o *expiringOptions) newScreen(print printFunc, out, diagnostics io.Writer) screen {
	view := o.view()
	switch {
	case print != nil:
		return &asDocuments{out: out, noteLines: noteLines{out: diagnostics}, printFunc: print, shown: map[string]entryData{}}
	case !o.terminal(out):
		return newLines(view, out, diagnostics)
	}
	return &inPlace{out: out, view: view, size: func() (int, int) { return terminalSize(out) }}
}

// inPlace overwrites what it showed before.
type inPlace struct {
	out  io.Writer
	view view
	size func() (width, height int)
	// lines that are on the screen; a long one takes several.
	lines int
}

func (s *inPlace) show(report *expiringReport) error {
	var text bytes.Buffer
	width, height := s.size()
	s.view.width = width
	for _, note := range report.notes { // At the top, in a line each.
		note = "note: " + note
		if runes := []rune(note); width > 0 && len(runes) > width {
			note = string(runes[:width-1]) + "…"
		}
		fmt.Fprintln(&text, note)
	}
	if len(report.entries) == 0 {
		fmt.Fprintln(&text, "nothing, at", instant(report.now, report.now.Location()))
	}
	if err := s.view.print(report, &text); err != nil {
		return err
	}
	lines := within(strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"), width, height)
	text.Reset()
	if s.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\x1b[J", s.lines)
	}
	s.lines = 0
	for _, line := range lines {
		fmt.Fprintln(&text, line)
		s.lines += rowsOf(line, width)
	}
	_, err := text.WriteTo(s.out)
	return err
}

// within are as many lines as a screen has place for, with a last one that counts the others.
func within(lines []string, width, height int) []string {
	most, rows := height-2, 0
	for _, line := range lines {
		rows += rowsOf(line, width)
	}
	if height <= 2 || rows <= most {
		return lines
	}
	shown := 0
	for rows = 1; shown < len(lines) && rows+rowsOf(lines[shown], width) <= most; shown++ {
		rows += rowsOf(lines[shown], width)
	}
	return append(slices.Clone(lines[:shown]), fmt.Sprintf("… and %d more", len(lines)-shown))
}

// rowsOf is how many rows of the screen a line takes.
func rowsOf(line string, width int) int {
	if width <= 0 {
		return 1
	}
	return max(1, (utf8.RuneCountInString(line)+width-1)/width)
}

// asLines writes a line for each change, and notes beside them.
type asLines struct {
	noteLines
	out  io.Writer
	view view
	// printRows appends a table to text. It writes the header once, and remembers how wide the columns
	// were.
	printRows func(table *metav1.Table) error
	text      bytes.Buffer
	// shown are the current rows by object and trigger, without the time that is left.
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
			fmt.Fprintln(n.out, "note:", note)
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
	table := newTable(append([]string{"EVENT"}, header...)...)
	left := slices.Index(header, "LEFT")
	current := map[string]bool{}
	for _, entry := range report.entries {
		key := keyOf(entry)
		current[key] = true
		cells := report.row(entry, s.view)
		lasting := slices.Clone(cells)
		lasting[left] = "-"
		was, known := s.shown[key]
		switch {
		case !known:
			addRow(table, entry.Labels, append([]string{eventNew}, cells...)...)
		case !slices.Equal(was, lasting):
			addRow(table, entry.Labels, append([]string{eventChanged}, cells...)...)
		}
		s.shown[key] = lasting
	}
	for _, key := range slices.Sorted(maps.Keys(s.shown)) {
		if !current[key] {
			addRow(table, nil, append([]string{eventGone}, s.shown[key]...)...)
			delete(s.shown, key)
		}
	}
	if err := s.printRows(table); err != nil {
		return err
	}
	_, err := s.text.WriteTo(s.out)
	return err
}
