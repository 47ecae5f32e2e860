package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

// screen shows a report and then later ones.
type screen interface {
	show(report *expiringReport) error
}

func (o *expiringOptions) newScreen(out, diagnostics io.Writer) screen {
	view := o.view()
	file, ok := out.(*os.File)
	if !ok || !o.terminal(out) {
		return newLines(view, out, diagnostics)
	}
	return &inPlace{out: out, view: view, size: func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}}
}

// inPlace overwrites what it showed before.
type inPlace struct {
	out  io.Writer
	view view
	size func() (width, height int)
	// lines that are on the screen.
	lines int
}

func (s *inPlace) show(report *expiringReport) error {
	var text bytes.Buffer
	for _, note := range report.notes {
		fmt.Fprintln(&text, "note:", note) // at the top, where they are not cut off
	}
	if len(report.entries) == 0 {
		fmt.Fprintln(&text, "nothing, at", instant(report.now, report.now.Location()))
	}
	if err := s.view.print(report, &text); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	width, height := s.size()
	if most := height - 2; height > 2 && len(lines) > most {
		more := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more", more))
	}
	text.Reset()
	if s.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\x1b[J", s.lines)
	}
	for _, line := range lines {
		fmt.Fprintln(&text, cut(line, width))
	}
	s.lines = len(lines)
	_, err := text.WriteTo(s.out)
	return err
}

// cut shortens a line to what fits.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(0, width-1)]) + "…"
}

// asLines writes a line for each change, and notes beside them.
type asLines struct {
	out, diagnostics io.Writer
	view             view
	// print appends a table to text. It writes the header once, and remembers how wide the columns
	// were.
	print func(table *metav1.Table) error
	text  bytes.Buffer
	// shown are the current rows by object and trigger, without the time that is left.
	shown map[string][]string
	// notes that were shown last.
	notes []string
}

func newLines(view view, out, diagnostics io.Writer) *asLines {
	s := &asLines{out: out, diagnostics: diagnostics, view: view, shown: map[string][]string{}}
	printer, writer := printers.NewTablePrinter(view.options()), printers.GetNewTabWriter(&s.text)
	s.print = func(table *metav1.Table) error { return errors.Join(printer.PrintObj(table, writer), writer.Flush()) }
	return s
}

func (s *asLines) show(report *expiringReport) error {
	for _, note := range report.notes {
		if !slices.Contains(s.notes, note) {
			fmt.Fprintln(s.diagnostics, "note:", note)
		}
	}
	s.notes = report.notes
	header := report.header(s.view)
	table := newTable(append([]string{"EVENT"}, header...)...)
	left := slices.Index(header, "LEFT")
	current := map[string]bool{}
	for _, entry := range report.entries {
		key := string(entry.UID) + " " + string(entry.Trigger)
		current[key] = true
		cells := report.row(entry, s.view)
		lasting := slices.Clone(cells)
		lasting[left] = "-"
		was, known := s.shown[key]
		switch {
		case !known:
			addRow(table, entry.Labels, append([]string{"NEW"}, cells...)...)
		case !slices.Equal(was, lasting):
			addRow(table, entry.Labels, append([]string{"CHANGED"}, cells...)...)
		}
		s.shown[key] = lasting
	}
	for _, key := range slices.Sorted(maps.Keys(s.shown)) {
		if !current[key] {
			addRow(table, nil, append([]string{"GONE"}, s.shown[key]...)...)
			delete(s.shown, key)
		}
	}
	if err := s.print(table); err != nil {
		return err
	}
	_, err := s.text.WriteTo(s.out)
	return err
}
