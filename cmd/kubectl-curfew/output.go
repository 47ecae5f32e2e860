package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"curfew.dev/curfew/webhook/lint"
)

// output chooses the form in which a command prints, with kubectl's flags and printers.
type output struct {
	kubectl *genericclioptions.PrintFlags
	// own are the formats that the command prints itself, for people; the first is the default.
	own       []string
	noHeaders bool
}

func newOutput(own ...string) *output {
	return &output{kubectl: genericclioptions.NewPrintFlags("").WithDefaultOutput(own[0]), own: own}
}

// format is the value of -o.
func (o *output) format() string { return *o.kubectl.OutputFormat }

// formats are all values of -o.
func (o *output) formats() []string {
	return slices.Concat(o.own, o.kubectl.AllowedFormats(), []string{columnsFormat, columnsFileFormat})
}

func (o *output) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(o.kubectl.OutputFormat, "output", "o", o.format(), "format: "+strings.Join(o.formats(), ", "))
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print tables without their header")
	o.kubectl.TemplatePrinterFlags.AddFlags(command)
	o.kubectl.OutputFlagSpecified = func() bool { return flags.Changed("output") }
}

// printed is an answer in the forms that programs read.
type printed struct {
	// document is what -o json shows.
	document any
	// list is the field of the document that holds the rows of -o custom-columns.
	list string
	// objects are those that -o name shows.
	objects []objectData
}

// objectData is one object in the documents of all commands.
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
	format := o.format()
	template := *o.kubectl.TemplatePrinterFlags.TemplateArgument
	if slices.Contains(o.own, format) && (template == "" || o.kubectl.OutputFlagSpecified()) {
		return nil, nil
	}
	if columns, ok, err := customColumns(format, template); ok {
		return func(answer printed, out io.Writer) error { return columns.print(answer, o.noHeaders, out) }, err
	}
	printer, err := o.kubectl.ToPrinter()
	switch {
	case genericclioptions.IsNoCompatiblePrinterError(err):
		return nil, fmt.Errorf("--output=%s: give one of %s", format, strings.Join(o.formats(), ", "))
	case err != nil:
		return nil, fmt.Errorf("--output=%s: %w", format, err)
	case format != "name":
		return func(answer printed, out io.Writer) error {
			text, err := lint.MarshalJSON(answer.document)
			if err != nil {
				return err
			}
			return printer.PrintObj(&runtime.Unknown{Raw: text}, out)
		}, nil
	}
	return func(answer printed, out io.Writer) error {
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
	}, nil
}
