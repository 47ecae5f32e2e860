package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/webhook/lint"
)

const nameFormat = "name"

// shared are the values of -o that all commands have.
var shared = []string{
	"json", "yaml", "kyaml", nameFormat, "go-template", "go-template-file", "jsonpath", "jsonpath-as-json", "jsonpath-file",
	columnsFormat, columnsFileFormat,
}

// output chooses the form in which a command prints, with kubectl's flags and printers.
type output struct {
	format, template string
	allowMissingKeys bool
	noHeaders        bool
	// own are the formats that the command prints itself, for people; the first is the default.
	own []string
	// nameless: -o name makes no sense.
	nameless bool
	// given reports whether the command line has a flag.
	given func(flag string) bool
}

func newOutput(own ...string) *output { return &output{format: own[0], own: own} }

// formats are all values of -o.
func (o *output) formats() []string {
	return slices.DeleteFunc(slices.Concat(o.own, shared), func(format string) bool { return o.nameless && format == nameFormat })
}

func (o *output) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&o.format, "output", "o", o.format, "format: "+strings.Join(o.formats(), ", "))
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print tables without a header")
	flags.StringVar(&o.template, "template", "", "template, path or columns for the formats that take one, instead of FORMAT=TEMPLATE")
	flags.BoolVar(&o.allowMissingKeys, "allow-missing-template-keys", true, "treat a field that is missing as empty in go-template and jsonpath")
	o.given = flags.Changed
}

// printed is an answer in the forms that programs read.
type printed struct {
	// document is what -o json shows: a list, see [listOf].
	document any
	// objects are those that -o name shows.
	objects []objectData
}

// outputVersion is the version of all documents. A field is never renamed or removed within it.
const outputVersion = "cli.curfew.dev/v1alpha1"

// list is the document of every command.
type list[T any] struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Now        time.Time `json:"now" doc:"when the command judged"`
	Items      []T       `json:"items"`
	Notes      []string  `json:"notes,omitempty" doc:"what could not be read, and what that means"`
}

func listOf[T any](kind string, now time.Time, items []T, notes []string) list[T] {
	return list[T]{outputVersion, kind, now, append([]T{}, items...), notes}
}

// objectData is one object in the documents of all commands. The tags doc of this and all other
// types of documents make up a section of docs/cli.md.
type objectData struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// printFunc writes an answer.
type printFunc func(answer printed, out io.Writer) error

// printer is nil for the formats that the command prints itself.
func (o *output) printer() (printFunc, error) {
	format, argument, ok := strings.Cut(o.format, "=")
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
		return nil, fmt.Errorf("--output=%s: %w", o.format, err)
	}
	return print, nil
}

func (o *output) printerOf(format, argument string) (printFunc, error) {
	if !slices.Contains(o.formats(), format) {
		return nil, fmt.Errorf("give one of %s", strings.Join(o.formats(), ", "))
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
	case nameFormat:
		if o.given("all-namespaces") {
			return nil, errors.New("names carry no namespace, so it cannot be used with --all-namespaces: " +
				"pipe -o json to extend, expire-now or keep with -f -, or give one namespace with -n")
		}
		return printNames, nil
	case columnsFormat, columnsFileFormat:
		columns, err := newColumns(format, argument)
		return func(answer printed, out io.Writer) error { return columns.print(answer, o.noHeaders, out) }, err
	}
	return o.templatePrinter(format, argument)
}

// templatePrinter is that of the formats with a template.
func (o *output) templatePrinter(format, template string) (printFunc, error) {
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
func asDocument(printer printers.ResourcePrinter) printFunc {
	return func(answer printed, out io.Writer) error {
		text, err := lint.MarshalJSON(answer.document)
		if err != nil {
			return err
		}
		return printer.PrintObj(&runtime.Unknown{Raw: text}, out)
	}
}

func printNames(answer printed, out io.Writer) error {
	var printer printers.NamePrinter
	for _, each := range answer.objects {
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

// timeData is a time in the zone of now; nil where there is none.
func timeData(at, now time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	local := at.In(now.Location())
	return &local
}
