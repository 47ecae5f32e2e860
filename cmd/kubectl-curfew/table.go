package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// newTable is a table as the API server would send it, to be printed by kubectl's printer.
func newTable(header ...string) *metav1.Table {
	out := &metav1.Table{}
	for _, name := range header {
		out.ColumnDefinitions = append(out.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	return out
}

// addRow adds the row of an object, whose labels may be shown.
func addRow(table *metav1.Table, labels map[string]string, cells ...string) {
	row := metav1.TableRow{Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}}
	for _, cell := range cells {
		row.Cells = append(row.Cells, oneLine(cell))
	}
	table.Rows = append(table.Rows, row)
}

func printTable(table *metav1.Table, options printers.PrintOptions, out io.Writer) error {
	return printers.NewTablePrinter(options).PrintObj(table, out)
}

// printAligned writes rows without a header, which may differ in their number of cells.
func printAligned(out io.Writer, rows [][]string) error {
	writer := printers.GetNewTabWriter(out)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		fmt.Fprintln(writer, strings.Join(cells, "\t"))
	}
	return writer.Flush()
}

// oneLine keeps a text within its row, and free of control characters: some terminals treat U+009B
// as an escape.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
