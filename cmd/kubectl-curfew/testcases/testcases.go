// Package testcases runs tests of cleanup policies against manifests: kubectl curfew test.
package testcases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/lint"
)

// testOptions are the flags of test.
type testOptions struct {
	*session.Connection
}

// Command is kubectl curfew test.
func Command(env console.Environment) *cobra.Command {
	options := testOptions{session.NewConnection(env, "table")}
	options.Output.Nameless = true // Tests are no objects.
	command := &cobra.Command{
		Use:   "test (DIR | FILE)...",
		Short: "Test cleanup policies against manifests, without a cluster",
		Long: `Test cleanup policies against manifests, without a cluster. A test is a document
of kind CleanupTest in a YAML file: it names policies, manifests and the time of
a run. It states which objects are deleted, which are kept and why, and when the
policy runs next. Test files are found in the directories and those below;
- is standard input.

Exit status: 0 all tests passed, 1 a test failed, 2 there is no answer: no test,
or files that cannot be used.`,
		Example: `  # Run all tests below a directory, in CI
  kubectl curfew test policies/

  # For programs
  kubectl curfew test policies/ -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a directory with tests, or a file")
			}
			return nil
		},
		RunE: options.Runs(options.execute),
	}
	options.Output.AddFlags(command)
	return command
}

// Item is the outcome of one test.
type Item struct {
	Name        string   `json:"name"`
	File        string   `json:"file"`
	Policy      string   `json:"policy,omitempty" doc:"the policy that was tested"`
	Passed      bool     `json:"passed"`
	Differences []string `json:"differences,omitempty" doc:"how the result differs from the expected one"`
}

func (o *testOptions) execute(ctx context.Context, call *session.Call) error {
	items, err := runTests(ctx, call.Args, call.In, call.Progress)
	if err != nil {
		return err
	}
	call.Progress.Done()
	failed := 0
	for i := range items {
		if !items[i].Passed {
			failed++
		}
	}
	if call.Print != nil {
		err = call.Print(console.Printed{Document: console.ListOf("TestList", call.Now, items, nil)}, call.Out)
	} else {
		err = o.table(items, failed, call.Out)
	}
	if err == nil && failed > 0 {
		return console.ErrBadNews
	}
	return err
}

func (o *testOptions) table(items []Item, failed int, out io.Writer) error {
	table := console.NewTable("TEST", "POLICY", "RESULT")
	for i := range items {
		result := "pass"
		if !items[i].Passed {
			result = "FAIL"
		}
		console.AddRow(table, nil, items[i].Name, items[i].Policy, result)
	}
	if err := console.PrintTable(table, printers.PrintOptions{NoHeaders: o.Output.NoHeaders}, out); err != nil {
		return err
	}
	for i := range items {
		if items[i].Passed {
			continue
		}
		fmt.Fprintf(out, "\n%s (%s):\n", console.OneLine(items[i].Name), items[i].File)
		for _, difference := range items[i].Differences {
			fmt.Fprintf(out, "  - %s\n", console.OneLine(difference))
		}
	}
	_, err := fmt.Fprintf(out, "\n%d passed, %d failed\n", len(items)-failed, failed)
	return err
}

// runTests runs all tests of files and directories.
func runTests(ctx context.Context, names []string, r io.Reader, progress *console.Progress) ([]Item, error) {
	files, err := folders.ListFiles(names, true, nil, r)
	if err != nil {
		return nil, err
	}
	var items []Item
	for i := range files {
		if files[i].Skip != "" {
			continue
		}
		source, err := files[i].Source()
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(source.Data, []byte(preview.CaseKind)) {
			continue // Policies and manifests may have anything in them.
		}
		documents, errs := lint.Read(source, lint.Limits{})
		if len(errs) > 0 {
			return nil, errs[0]
		}
		for _, document := range documents {
			if kind := document.Kind(); kind.Kind != preview.CaseKind || kind.GroupVersion().String() != preview.CaseVersion {
				continue
			}
			item, err := runTest(ctx, document, progress)
			if err != nil {
				return nil, fmt.Errorf("%s: document %d (line %d): %w", document.File, document.Index, document.Line, err)
			}
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("there is no test: write a document with apiVersion %s and kind %s", preview.CaseVersion, preview.CaseKind)
	}
	return items, nil
}

// runTest runs one test. Its paths are relative to its file.
func runTest(ctx context.Context, document *lint.Document, progress *console.Progress) (Item, error) {
	out := Item{Name: document.File, File: document.File}
	text, err := lint.MarshalJSON(document.Object)
	if err != nil {
		return out, err
	}
	test, err := preview.ParseCase(text)
	if err != nil {
		return out, err
	}
	if test.Name != "" {
		out.Name = test.Name
	}
	var paths []string
	for _, name := range append(append([]string{}, test.Policies...), test.Manifests...) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(filepath.FromSlash(document.File)), name)
		}
		paths = append(paths, name)
	}
	files, err := preview.ReadLocal(ctx, paths, true, "", nil, progress)
	if err != nil {
		return out, err
	}
	var named []string
	if test.Policy != "" {
		named = []string{test.Policy}
	}
	p, err := files.Policy(named)
	if err != nil {
		return out, err
	}
	result, err := files.Preview(ctx, p, test.Now.In(time.UTC), test.MatchedSince)
	if err != nil {
		return out, err
	}
	out.Policy, out.Differences = p.Name, test.Check(result, files)
	out.Passed = len(out.Differences) == 0
	return out, nil
}
