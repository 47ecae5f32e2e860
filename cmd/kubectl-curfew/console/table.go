package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"curfew.dev/curfew/policy/lint"
)

// NewTable is a table as the API server would send it, to be printed by kubectl's printer.
func NewTable(header ...string) *metav1.Table {
	out := &metav1.Table{}
	for _, name := range header {
		out.ColumnDefinitions = append(out.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	return out
}

// AddRow adds the row of an object, whose labels may be shown.
func AddRow(table *metav1.Table, labels map[string]string, cells ...string) {
	row := metav1.TableRow{Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}}
	for _, cell := range cells {
		row.Cells = append(row.Cells, OneLine(cell))
	}
	table.Rows = append(table.Rows, row)
}

func PrintTable(table *metav1.Table, options printers.PrintOptions, out io.Writer) error {
	return printers.NewTablePrinter(options).PrintObj(table, out)
}

// PrintAligned writes rows without a header, which may differ in their number of cells.
func PrintAligned(out io.Writer, rows [][]string) error {
	writer := printers.GetNewTabWriter(out)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = OneLine(cell)
		}
		fmt.Fprintln(writer, strings.Join(cells, "\t"))
	}
	return writer.Flush()
}

// OneLine keeps a text within its row, and free of control characters: some terminals treat U+009B
// as an escape.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// Map applies a function to each element of a list.
func Map[T, U any](all []T, f func(T) U) []U {
	var out []U
	for _, item := range all {
		out = append(out, f(item))
	}
	return out
}

func OrDash(text string) string { return cmp.Or(text, "-") }

// Count is a number with what it counts, such as 1 object or 2 policies. many is the plural, by
// default with an s.
func Count[N int | int32 | int64](n N, singular string, many ...string) string {
	if n != 1 {
		singular = cmp.Or(strings.Join(many, ""), singular+"s")
	}
	return fmt.Sprint(n, " ", singular)
}

// The formats that kubectl get has and cli-runtime lacks.
const (
	columnsFormat     = "custom-columns"
	columnsFileFormat = "custom-columns-file"
)

// columns are the headers and paths of -o custom-columns.
type columns struct {
	headers []string
	paths   []*jsonpath.JSONPath
}

// newColumns reads HEADER:PATH,... or, for a file, a line of headers and one of paths.
func newColumns(format, text string) (out columns, err error) {
	var headers, paths []string
	if format == columnsFileFormat {
		first, rest, _ := strings.Cut(text, "\n")
		second, _, _ := strings.Cut(rest, "\n")
		if headers, paths = strings.Fields(first), strings.Fields(second); len(headers) != len(paths) || len(paths) == 0 {
			return out, errors.New("give one line of headers and one of as many paths")
		}
	} else {
		for part := range strings.SplitSeq(text, ",") {
			header, path, ok := strings.Cut(part, ":")
			if !ok {
				return out, fmt.Errorf("%q is not HEADER:PATH: give %s=HEADER:PATH,...", part, format)
			}
			headers, paths = append(headers, header), append(paths, path)
		}
	}
	for _, path := range paths {
		parsed, err := ParsePath(path)
		if err != nil {
			return out, err
		}
		out.paths = append(out.paths, parsed)
	}
	out.headers = headers
	return out, nil
}

func (c columns) print(answer Printed, noHeaders bool, out io.Writer) error {
	items, err := itemsOf(answer)
	if err != nil {
		return err
	}
	table := NewTable(c.headers...)
	for _, item := range items {
		var cells []string
		for _, path := range c.paths {
			values, err := find(path, item)
			if err != nil {
				return err
			}
			texts := Map(values, func(value any) string { return fmt.Sprint(value) })
			cells = append(cells, cmp.Or(strings.Join(texts, ","), "<none>"))
		}
		AddRow(table, nil, cells...)
	}
	return PrintTable(table, printers.PrintOptions{NoHeaders: noHeaders}, out)
}

// itemsOf are the rows of a document, as programs read them.
func itemsOf(answer Printed) ([]any, error) {
	text, err := lint.MarshalJSON(answer.Document)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	items, ok := document["items"].([]any)
	if !ok { // one object of the cluster
		items = []any{document}
	}
	return items, nil
}

var relaxedPath = regexp.MustCompile(`^\{?\.?([^{}]+)\}?$`)

// ParsePath reads a JSONPath as kubectl does for columns: {.a.b}, .a.b and a.b are the same.
func ParsePath(text string) (*jsonpath.JSONPath, error) {
	parts := relaxedPath.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%q is not a path: give one such as {.object.name}", text)
	}
	out := jsonpath.New("path").AllowMissingKeys(true)
	if err := out.Parse("{." + parts[1] + "}"); err != nil {
		return nil, fmt.Errorf("%q is not a path: %w", text, err)
	}
	return out, nil
}

func find(path *jsonpath.JSONPath, item any) ([]any, error) {
	results, err := path.FindResults(item)
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var out []any
	for _, value := range results[0] {
		if value.IsValid() && value.CanInterface() && value.Interface() != nil {
			out = append(out, value.Interface())
		}
	}
	return out, nil
}

// SortKeys are the values of the items of an answer at the path of --sort-by.
func SortKeys(answer Printed, text string) ([]any, error) {
	path, err := ParsePath(text)
	if err != nil {
		return nil, err
	}
	items, err := itemsOf(answer)
	if err != nil {
		return nil, err
	}
	keys, found := make([]any, len(items)), false
	for i, item := range items {
		values, err := find(path, item)
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			keys[i], found = values[0], true
		}
	}
	if !found && len(items) > 0 {
		return nil, errors.New("no row has this field")
	}
	return keys, nil
}

// CompareKeys compares numbers as numbers and all else as text. What has no key comes last.
func CompareKeys(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	x, isNumber := a.(json.Number)
	y, both := b.(json.Number)
	if isNumber && both {
		left, _ := x.Float64()
		right, _ := y.Float64()
		return cmp.Compare(left, right)
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
