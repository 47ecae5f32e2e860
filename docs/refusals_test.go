package docs_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/webhook"
)

var policyMessage = regexp.MustCompile(`(?m)^ +message: "?(.*?)"?$`)

// refusals are the denials that no rule makes: of the webhook, and of the
// ValidatingAdmissionPolicies. They are without the command that each ends with, by the name in it.
func refusals(t *testing.T) map[string][]string {
	t.Helper()
	ended := slices.Concat(slices.Collect(maps.Values(webhook.Refusals()))...)
	for _, file := range []string{"limits", "configurations", "status"} {
		text, err := os.ReadFile(root + "/manifests/rbac/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		messages := policyMessage.FindAllSubmatch(text, -1)
		if len(messages) != strings.Count(string(text), "\n    - expression: ") {
			t.Fatalf("manifests/rbac/%s.yaml: only %d messages", file, len(messages))
		}
		for _, message := range messages {
			ended = append(ended, string(message[1]))
		}
	}
	out := map[string][]string{}
	for _, message := range ended {
		text, name, led := strings.Cut(message, "; "+rules.SeeHelp)
		if !led {
			t.Errorf("this refusal does not end with %q and the name of its help: %s", rules.SeeHelp, message)
			continue
		}
		out[name] = append(out[name], text)
	}
	return out
}
