package explain

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/docs"
)

const rulePrefix = "rule/"

// emphasis, link and fence are the Markdown of messages.md. A terminal shows none of it.
var (
	emphasis = regexp.MustCompile("\\*\\*|`")
	link     = regexp.MustCompile(`\[([^]]+)\]\(([^)]+)\)`)
	fence    = regexp.MustCompile("(?ms)^```\n(.*?)^```$")
)

// explainRules prints the help on admission rules, from messages.md.
func explainRules(call *session.Call) error {
	if call.Print != nil {
		return errors.New("the help on a rule is text: leave -o out")
	}
	sections := strings.Split(docs.Messages, "\n### ")[1:]
	for _, arg := range call.Args {
		name, ok := strings.CutPrefix(arg, rulePrefix)
		if !ok {
			return fmt.Errorf("%s is not a rule: explain rules and objects one after the other", arg)
		}
		var names []string
		found := ""
		for _, section := range sections {
			heading, text, _ := strings.Cut(section, "\n")
			if names = append(names, heading); heading == name {
				found = text
			}
		}
		if found == "" {
			return fmt.Errorf("rule/%s: there is no such rule: use one of %s", name, strings.Join(names, ", "))
		}
		if _, err := fmt.Fprintf(call.Out, "%s\n%s\n", name, plain(found)); err != nil {
			return err
		}
	}
	return nil
}

// plain is Markdown for a terminal: examples are indented, and links show their page.
func plain(text string) string {
	text = fence.ReplaceAllStringFunc(text, func(block string) string {
		lines := strings.TrimSuffix(fence.FindStringSubmatch(block)[1], "\n")
		return "  " + strings.ReplaceAll(lines, "\n", "\n  ")
	})
	return emphasis.ReplaceAllString(link.ReplaceAllString(text, "$1 (docs/$2)"), "")
}
