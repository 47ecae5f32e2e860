package console

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
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
func Map[T, U any](all []T, of func(T) U) []U {
	var out []U
	for _, one := range all {
		out = append(out, of(one))
	}
	return out
}

func OrDash(text string) string { return cmp.Or(text, "-") }

// Count is a number with what it counts, such as 1 object or 2 policies. many is the plural, by
// default with an s.
func Count[N int | int32 | int64](n N, one string, many ...string) string {
	if n != 1 {
		one = cmp.Or(strings.Join(many, ""), one+"s")
	}
	return fmt.Sprint(n, " ", one)
}

// columnsFormat is a format that kubectl get has and cli-runtime lacks.
const columnsFormat = "custom-columns"

// columns are the headers and paths of -o custom-columns.
type columns struct {
	headers []string
	paths   []*jsonpath.JSONPath
}

// newColumns reads HEADER:PATH,...
func newColumns(text string) (out columns, err error) {
	for part := range strings.SplitSeq(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok {
			return out, fmt.Errorf("%q is not HEADER:PATH: give %s=HEADER:PATH,...", part, columnsFormat)
		}
		parsed, err := parsePath(path)
		if err != nil {
			return out, err
		}
		out.headers, out.paths = append(out.headers, header), append(out.paths, parsed)
	}
	return out, nil
}

func (c columns) print(answer Printed, noHeaders bool, out io.Writer) error {
	text, err := lint.MarshalJSON(answer.Document)
	if err != nil {
		return err
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	items, ok := document["items"].([]any)
	if !ok { // one object of the cluster
		items = []any{document}
	}
	table := NewTable(c.headers...)
	for _, item := range items {
		var cells []string
		for _, path := range c.paths {
			results, err := path.FindResults(item)
			if err != nil {
				return err
			}
			var texts []string
			for _, value := range slices.Concat(results...) {
				if value.IsValid() && value.CanInterface() && value.Interface() != nil {
					texts = append(texts, fmt.Sprint(value.Interface()))
				}
			}
			cells = append(cells, cmp.Or(strings.Join(texts, ","), "<none>"))
		}
		AddRow(table, nil, cells...)
	}
	return PrintTable(table, printers.PrintOptions{NoHeaders: noHeaders}, out)
}

var relaxedPath = regexp.MustCompile(`^\{?\.?([^{}]+)\}?$`)

// parsePath reads a JSONPath as kubectl does for columns: {.a.b}, .a.b and a.b are the same.
func parsePath(text string) (*jsonpath.JSONPath, error) {
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
