package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/defaults"
	"curfew.dev/curfew/cmd/kubectl-curfew/expiring"
	"curfew.dev/curfew/cmd/kubectl-curfew/explain"
	"curfew.dev/curfew/cmd/kubectl-curfew/health"
	"curfew.dev/curfew/cmd/kubectl-curfew/lint"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/tally"
	"curfew.dev/curfew/cmd/kubectl-curfew/testcases"
	"curfew.dev/curfew/cmd/kubectl-curfew/unused"
)

const referencePage = "../../docs/cli.md"

// TestReferencePage holds docs/cli.md to the commands; -update writes it (make generate).
func TestReferencePage(t *testing.T) {
	have := page(root(console.Environment{}))
	if *update {
		must(t, os.WriteFile(referencePage, []byte(have), 0o644))
	}
	want, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatalf("%v: run make generate", err)
	}
	if have != string(want) {
		t.Errorf("%s is not what the commands say: run make generate", referencePage)
	}
}

// TestSeedQuestionsAreAnswered: each has a line in the help, a test that runs it (question-*), and
// one against a real cluster.
func TestSeedQuestionsAreAnswered(t *testing.T) {
	if len(expiring.Questions) != 7 {
		t.Fatalf("%d questions", len(expiring.Questions))
	}
	_, answered := goldens(t, "testdata/golden/expiring.txt")
	_, explained := goldens(t, "testdata/golden/explain.txt")
	answered["question-7"] = explained["question-7"]
	_, help, _, _ := execute(t, scene{}, "expiring", "--help")
	for i, each := range expiring.Questions {
		expectPart(t, "help", help, "# "+each.Question+"\n  kubectl curfew "+each.Line, true)
		test, ok := answered[fmt.Sprintf("question-%d", i+1)]
		if typed := strings.NewReplacer("policy.yaml", "testdata/policy.yaml", "'", "").Replace(each.Line); !ok || strings.Join(test.args, " ") != typed {
			t.Errorf("question-%d runs %q, and the help says %q", i+1, strings.Join(test.args, " "), typed)
		}
	}
}

func page(root *cobra.Command) string {
	var out strings.Builder
	out.WriteString("# kubectl curfew\n\n" +
		"<!-- Written by `make generate` from the commands. Edit them, not this page. -->\n\n" +
		"The command line, a plugin of `kubectl`. It asks only the API server, with your own permissions; `lint` needs no cluster, unless you add `--server`. " +
		"How to install it: [how-to](how-to-cli.md#use-the-command-line).\n\n" +
		"Exit status: 0 all is well, 1 the answer is bad news (lint found errors, an object could not be changed), 2 there is no answer: " +
		"flags, files or objects that cannot be used.\n\n")
	var commands []*cobra.Command
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() && command.Name() != "help" {
			commands = append(commands, command)
		}
	}
	for _, group := range root.Groups() {
		fmt.Fprintf(&out, "%s\n\n", group.Title)
		for _, command := range commands {
			if command.GroupID == group.ID {
				fmt.Fprintf(&out, "- [%s](#kubectl-curfew-%[1]s): %s\n", command.Name(), lower(command.Short))
			}
		}
		out.WriteString("\n")
	}
	out.WriteString("Of all commands:\n\n- [flags of several commands](#flags-of-several-commands)\n- [JSON](#json)\n")
	shared := session.NewConnection(console.Environment{})
	connecting, common := pflag.NewFlagSet("", pflag.ContinueOnError), map[string]*pflag.Flag{"allow-missing-template-keys": nil, "no-headers": nil, "template": nil}
	shared.Add(connecting)
	for _, command := range commands {
		fmt.Fprintf(&out, "\n## kubectl curfew %s\n\n%s\n\n```\nkubectl curfew %s\n```\n", command.Name(), paragraphs(command), strings.TrimSuffix(command.Use, " [flags]"))
		if command.Example != "" {
			fmt.Fprintf(&out, "\n```\n%s\n```\n", undent(command.Example))
		}
		command.InitDefaultHelpFlag()
		var own []*pflag.Flag
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if _, ok := common[flag.Name]; ok {
				common[flag.Name] = flag
			} else if flag.Name != "help" && (connecting.Lookup(flag.Name) == nil || flag.Usage != connecting.Lookup(flag.Name).Usage) {
				own = append(own, flag)
			}
		})
		out.WriteString(flagTable(own))
	}
	out.WriteString("\n## Flags of several commands\n\nCommands that ask a cluster take the flags with which `kubectl` chooses the cluster and the user (`kubectl options`), " +
		"and `--curfew-namespace`, the namespace that Curfew runs in. Commands that have `-o` also take these:\n")
	out.WriteString(flagTable(slices.Collect(maps.Values(common))))
	out.WriteString(documents())
	return out.String()
}

// documents describes the output of -o json.
func documents() string {
	var out strings.Builder
	out.WriteString("\n## JSON\n\n`-o json` and all formats that templates make of it print one list. Its `apiVersion` is `" + console.OutputVersion +
		"`; while that stays the same, fields are only added. Times are RFC 3339, in the time zone of your machine. " +
		"`extend`, `expire-now` and `keep` read the `object` of each item with `-f`.\n")
	seen := map[reflect.Type]bool{}
	table := func(t reflect.Type) {
		out.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
		describe(&out, "", t, seen)
	}
	table(reflect.TypeFor[console.List[struct{}]]())
	out.WriteString("\nThe `object` of an item:\n")
	table(reflect.TypeFor[console.ObjectData]())
	for _, row := range []struct {
		kind, commands string
		list           any
	}{
		{"ExpiryList", "expiring", console.List[expiring.Item]{}},
		{"ExplanationList", "explain", console.List[explain.Item]{}},
		{"ChangeList", "extend, expire-now and keep", console.List[change.Item]{}},
		{"ForecastList", "explain -f", console.List[explain.ForecastItem]{}},
		{"CheckList", "status", console.List[health.Check]{}},
		{"FindingList", "lint", lint.Data{}},
		{"DefaultsList", "defaults", defaults.Data{}},
		{"PreviewList", "preview", preview.Data{}},
		{"TestList", "test", console.List[testcases.Item]{}},
		{"CleanupRunList", "report", report.Data{}},
		{"TallyList", "tally", console.List[tally.Item]{}},
		{"UnusedList", "unused", console.List[unused.Item]{}},
	} {
		fmt.Fprintf(&out, "\n### %s\n\nPrinted by %s. ", row.kind, row.commands)
		whole := reflect.TypeOf(row.list)
		items, _ := whole.FieldByName("Items")
		out.WriteString("Its items:\n")
		table(items.Type.Elem())
		if _, nested := whole.FieldByName("List"); nested {
			out.WriteString("\nBeside the items:\n")
			seen[whole.Field(0).Type] = true
			table(whole)
		}
	}
	return out.String()
}

// describe writes a row for each field of a type, and once for the fields of each type within it.
func describe(out *strings.Builder, path string, t reflect.Type, seen map[reflect.Type]bool) {
	seen[t] = true
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case field.Anonymous && name == "":
			if !seen[field.Type] {
				describe(out, path, field.Type, seen)
			}
			continue
		}
		kind, suffix, element := "object", "", field.Type
		if element.Kind() == reflect.Pointer {
			element = element.Elem()
		}
		if element.Kind() == reflect.Slice && element.Elem().Kind() != reflect.Uint8 {
			suffix, element = "[]", element.Elem()
		}
		switch {
		case element == reflect.TypeFor[time.Time]():
			kind = "time"
		case element.Kind() == reflect.Bool:
			kind = "boolean"
		case element.Kind() == reflect.String:
			kind = "string"
		case element.Kind() == reflect.Int, element.Kind() == reflect.Int64:
			kind = "integer"
		}
		meaning := cmp.Or(field.Tag.Get("doc"), comments()[t.PkgPath()+"."+t.Name()+"."+field.Name])
		fmt.Fprintf(out, "| `%s%s%s` | %s | %s |\n", path, name, suffix, kind, meaning)
		if kind == "object" && element.Kind() == reflect.Struct && !seen[element] {
			describe(out, path+name+suffix+".", element, seen)
		}
	}
}

// comments are the comments above the fields of types of the commands. A field whose meaning is too
// long for its tag has it there.
var comments = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	files, _ := filepath.Glob("*/*.go") // Without files TestReferencePage fails.
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range fields.Fields.List {
				for _, ident := range field.Names {
					text := "curfew.dev/curfew/cmd/kubectl-curfew/" + filepath.ToSlash(filepath.Dir(name))
					out[text+"."+spec.Name.Name+"."+ident.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
			return true
		})
	}
	return out
})

func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }

func paragraphs(command *cobra.Command) string {
	if command.Long == "" {
		return command.Short + "."
	}
	return command.Long
}

func undent(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "  "))
	}
	return strings.Join(out, "\n")
}

func flagTable(flags []*pflag.Flag) string {
	if len(flags) == 0 {
		return ""
	}
	slices.SortFunc(flags, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	out.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
	for _, flag := range flags {
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name = "`-" + flag.Shorthand + "`, " + name
		}
		standard := ""
		if value := flag.DefValue; value != "" && value != "[]" && value != "false" {
			standard = "`" + value + "`"
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", name, standard, strings.ReplaceAll(strings.TrimSuffix(flag.Usage, "."), "|", "\\|"))
	}
	return out.String()
}
