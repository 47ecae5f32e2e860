package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// TestExplainRule prints sections of docs/messages.md without Markdown, and asks no cluster.
func TestExplainRule(t *testing.T) {
	const approval = `cleanup-approval

Cause: the change removes approval: Required from a cleanup policy, so its next runs delete without an approval.

  spec.approval: the policy deletes without an approval from now on, unless the controller has --require-approval

Fix: none if you mean it. Otherwise, set approval: Required again. The flag binds CleanupPolicies only.

`
	for line, test := range map[string]struct {
		want, err string
		code      int
	}{
		"rule/cleanup-approval":                      {want: approval},
		"rule/cleanup-approval rule/tally-limit":     {want: approval + "tally-limit\n\nCause: "},
		"rule/cleanup-account":                       {want: "see\na cleanup policy is stalled (docs/troubleshooting.md#a-cleanup-policy-is-stalled).\n"},
		"rule/bound":                                 {err: "error: rule/bound: there is no such rule: use one of annotation-as-label, bounds, ", code: console.ExitUsage},
		"rule/":                                      {err: "error: rule/: there is no such rule: use one of ", code: console.ExitUsage},
		"rule/cleanup-approval job/a":                {want: approval, err: "error: job/a: is no rule: explain rules and objects one after the other", code: console.ExitUsage},
		"rule/cleanup-approval -o json":              {err: "error: the help on a rule is text: leave -o out", code: console.ExitUsage},
		"rule/cleanup-approval --kubeconfig missing": {want: approval},
	} {
		t.Run(line, func(t *testing.T) {
			var out, diagnostics bytes.Buffer
			command := root(console.Environment{
				Now: func() time.Time { return noon },
				Connect: func(clientcmd.ClientConfig, io.Writer) (world.Clients, error) {
					return world.Clients{}, errors.New("no cluster")
				},
				Terminal: func(any) bool { return false },
			})
			command.SetArgs(append([]string{"explain"}, strings.Fields(line)...))
			command.SetOut(&out)
			command.SetErr(&diagnostics)
			if code := console.Run(t.Context(), command); code != test.code {
				t.Errorf("exit status %d, want %d", code, test.code)
			}
			expectPart(t, "it", out.String(), test.want, true)
			expectPart(t, "the error", diagnostics.String(), test.err, true)
			if test.want == approval && out.String() != approval {
				t.Errorf("it prints\n%s\nwant\n%s", out.String(), approval)
			}
		})
	}
}
