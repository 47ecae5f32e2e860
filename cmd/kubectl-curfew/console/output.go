package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/policy/lint"
)

// NameFormat is the value of -o that prints names alone.
const NameFormat = "name"

// shared are the values of -o that all commands have.
var shared = []string{
	"json", "yaml", "kyaml", NameFormat, "go-template", "go-template-file", "jsonpath", "jsonpath-as-json", "jsonpath-file",
	columnsFormat, columnsFileFormat,
}

// Output chooses the form in which a command prints, with kubectl's flags and printers.
type Output struct {
	Format, template string
	allowMissingKeys bool
	NoHeaders        bool
	// own are the formats that the command prints itself, for people; the first is the default.
	own []string
	// nameless: -o name makes no sense.
	Nameless bool
	// given reports whether the command line has a flag.
	given func(flag string) bool
}

func NewOutput(own ...string) *Output { return &Output{Format: own[0], own: own} }

// Formats are all values of -o.
func (o *Output) Formats() []string {
	return slices.DeleteFunc(slices.Concat(o.own, shared), func(format string) bool { return o.Nameless && format == NameFormat })
}

func (o *Output) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&o.Format, "output", "o", o.Format, "format: "+strings.Join(o.Formats(), ", "))
	flags.BoolVar(&o.NoHeaders, "no-headers", false, "print tables without a header")
	flags.StringVar(&o.template, "template", "", "template, path or columns for the formats that take one, instead of FORMAT=TEMPLATE")
	flags.BoolVar(&o.allowMissingKeys, "allow-missing-template-keys", true,
		"treat a field that is missing as empty in go-template and jsonpath")
	o.given = flags.Changed
}

// Printed is an answer in the forms that programs read.
type Printed struct {
	// Document is what -o json shows: a list, see [listOf].
	Document any
	// Objects are the objects that -o name shows.
	Objects []ObjectData
}

// OutputVersion is the version of all documents. A field is never renamed or removed within it.
const OutputVersion = "cli.curfew.dev/v1alpha1"

// List is the document of every command.
type List[T any] struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Now        time.Time `json:"now" doc:"when the command judged"`
	Items      []T       `json:"items"`
	Notes      []string  `json:"notes,omitempty" doc:"what could not be read, and what that means"`
}

func ListOf[T any](kind string, now time.Time, items []T, notes []string) List[T] {
	return List[T]{OutputVersion, kind, now, append([]T{}, items...), notes}
}

// ObjectData is one object in the documents of all commands. The tags doc of this and all other
// types of documents make up a section of docs/cli.md.
type ObjectData struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// ObjectOf names an object in an answer. Empty fields are left out, where the API has none.
func ObjectOf(apiVersion, kind, namespace, name, uid string) ObjectData {
	return ObjectData{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: uid}
}

// PrintFunc writes an answer.
type PrintFunc func(answer Printed, out io.Writer) error

// Printer is nil for the formats that the command prints itself.
func (o *Output) Printer() (PrintFunc, error) {
	format, argument, ok := strings.Cut(o.Format, "=")
	if !ok {
		argument = o.template
	}
	if o.template != "" && !o.given("output") {
		format = "go-template" // as kubectl does
	}
	if slices.Contains(o.own, format) {
		return nil, nil
	}
	print, err := o.printerOf(format, argument)
	if err != nil {
		return nil, fmt.Errorf("--output=%s: %w", o.Format, err)
	}
	return print, nil
}

func (o *Output) printerOf(format, argument string) (PrintFunc, error) {
	if !slices.Contains(o.Formats(), format) {
		return nil, fmt.Errorf("give one of %s", strings.Join(o.Formats(), ", "))
	}
	if strings.HasSuffix(format, "-file") {
		text, err := os.ReadFile(argument)
		if err != nil {
			return nil, err
		}
		argument = string(text)
	}
	switch format {
	case "json":
		return asDocument(&printers.JSONPrinter{}), nil
	case "yaml":
		return asDocument(&printers.YAMLPrinter{}), nil
	case "kyaml":
		return asDocument(&printers.KYAMLPrinter{}), nil
	case NameFormat:
		if o.given("all-namespaces") {
			return nil, errors.New("names carry no namespace, so it cannot be used with --all-namespaces: " +
				"pipe -o json to extend, expire-now or keep with -f -, or give one namespace with -n")
		}
		return printNames, nil
	case columnsFormat, columnsFileFormat:
		columns, err := newColumns(format, argument)
		return func(answer Printed, out io.Writer) error { return columns.print(answer, o.NoHeaders, out) }, err
	}
	return o.templatePrinter(format, argument)
}

// templatePrinter returns the printer of a format with a template.
func (o *Output) templatePrinter(format, template string) (PrintFunc, error) {
	if template == "" {
		return nil, fmt.Errorf("there is no template: give %s=TEMPLATE", format)
	}
	if strings.HasPrefix(format, "go-template") {
		printer, err := printers.NewGoTemplatePrinter([]byte(template))
		if err != nil {
			return nil, err
		}
		printer.AllowMissingKeys(o.allowMissingKeys)
		return asDocument(printer), nil
	}
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return nil, err
	}
	printer.AllowMissingKeys(o.allowMissingKeys)
	printer.EnableJSONOutput(format == "jsonpath-as-json")
	return asDocument(printer), nil
}

// asDocument prints the document of an answer.
func asDocument(printer printers.ResourcePrinter) PrintFunc {
	return func(answer Printed, out io.Writer) error {
		text, err := lint.MarshalJSON(answer.Document)
		if err != nil {
			return err
		}
		return printer.PrintObj(&runtime.Unknown{Raw: text}, out)
	}
}

func printNames(answer Printed, out io.Writer) error {
	var printer printers.NamePrinter
	for _, each := range answer.Objects {
		named := &unstructured.Unstructured{Object: map[string]any{}}
		named.SetAPIVersion(each.APIVersion)
		named.SetKind(each.Kind)
		named.SetName(each.Name)
		if err := printer.PrintObj(named, out); err != nil {
			return err
		}
	}
	return nil
}

// TimeData is a time in the zone of now; nil where there is none.
func TimeData(t, now time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.In(now.Location()))
}

// Where is file:line, as editors and terminals understand it.
func Where(file string, line int) string {
	file = OrDash(file)
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// Instant is a time with its zone: 2026-11-20 17:00:00 CET.
func Instant(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// Left is the time until an instant in two units, such as 3d4h, 45s or overdue 2h15m.
func Left(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	length := t.Sub(now)
	switch {
	case length <= 0 && length > -time.Second:
		return "now"
	case length < 0:
		return "overdue " + TwoUnits(-length)
	}
	return TwoUnits(length)
}

// Relative is an instant relative to now: in 2h15m, 3d ago.
func Relative(t, now time.Time) string {
	if length := t.Sub(now); length > 0 {
		return "in " + TwoUnits(length)
	}
	return TwoUnits(now.Sub(t)) + " ago"
}

func TwoUnits(length time.Duration) string {
	length = length.Truncate(time.Second)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, unit := range units {
		count := length / unit.size
		if count == 0 && i < len(units)-1 {
			continue
		}
		out := fmt.Sprintf("%d%s", count, unit.name)
		if i < len(units)-1 {
			if rest := length % unit.size / units[i+1].size; rest > 0 {
				out += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return out
	}
	return "0s"
}
