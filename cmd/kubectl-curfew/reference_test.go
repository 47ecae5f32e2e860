package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const referencePage = "../../docs/cli.md"

// TestReferencePage holds docs/cli.md to the commands; -update writes it (make generate).
func TestReferencePage(t *testing.T) {
	have := page(root(environment{}))
	if *update {
		if err := os.WriteFile(referencePage, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
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
	if len(seedQuestions) != 7 {
		t.Fatalf("%d questions", len(seedQuestions))
	}
	_, help, _, _ := execute(t, scene{}, "expiring", "--help")
	for i, each := range seedQuestions {
		if !strings.Contains(help, "# "+each.question+"\n  kubectl curfew "+each.line) {
			t.Errorf("%q does not stand in the help with its line", each.question)
		}
		test, ok := clusterGoldens[fmt.Sprintf("question-%d", i+1)]
		if typed := strings.NewReplacer("policy.yaml", "testdata/policy.yaml", "'", "").Replace(each.line); !ok || strings.Join(test.args, " ") != typed {
			t.Errorf("question-%d runs %q, and the help says %q", i+1, strings.Join(test.args, " "), typed)
		}
	}
}

func page(root *cobra.Command) string {
	var out strings.Builder
	out.WriteString("# kubectl curfew\n\n" +
		"<!-- Written by `make generate` from the commands. Edit them, not this page. -->\n\n" +
		"The command line, a plugin of `kubectl`. It asks the API server alone, with your own permissions; `lint` asks nobody. " +
		"How to install it: [how-to](how-to.md#use-the-command-line).\n\n" +
		"Exit status: 0 all is well, 1 the answer is bad news (lint found errors, an object could not be changed), 2 there is no answer: " +
		"flags, files or objects that cannot be used.\n\n")
	var commands []*cobra.Command
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() && command.Name() != "help" {
			commands = append(commands, command)
		}
	}
	for _, command := range commands {
		fmt.Fprintf(&out, "- [%s](#kubectl-curfew-%[1]s): %s\n", command.Name(), lower(command.Short))
	}
	out.WriteString("- [flags of all commands that ask a cluster](#flags-of-all-commands-that-ask-a-cluster)\n")
	shared := newConnection(environment{})
	connecting := pflag.NewFlagSet("", pflag.ContinueOnError)
	shared.add(connecting)
	for _, command := range commands {
		fmt.Fprintf(&out, "\n## kubectl curfew %s\n\n%s\n\n```\nkubectl curfew %s\n```\n", command.Name(), paragraphs(command), strings.TrimSuffix(command.Use, " [flags]"))
		if command.Example != "" {
			fmt.Fprintf(&out, "\n```\n%s\n```\n", undent(command.Example))
		}
		command.InitDefaultHelpFlag()
		var own []*pflag.Flag
		asks := false
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			switch {
			case flag.Name == "help":
			case connecting.Lookup(flag.Name) != nil && flag.Usage == connecting.Lookup(flag.Name).Usage:
				asks = true
			default:
				own = append(own, flag)
			}
		})
		out.WriteString(flagTable(own))
		if asks {
			out.WriteString("\nAnd the [flags of all commands that ask a cluster](#flags-of-all-commands-that-ask-a-cluster).\n")
		}
	}
	out.WriteString("\n## Flags of all commands that ask a cluster\n\nThose of `kubectl`, and one of Curfew's.\n")
	var all []*pflag.Flag
	connecting.VisitAll(func(flag *pflag.Flag) { all = append(all, flag) })
	out.WriteString(flagTable(all))
	return out.String()
}

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
