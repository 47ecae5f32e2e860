package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestCompletion: kubectl completes the plugin through kubectl_complete-curfew, which it finds
// beside it.
func TestCompletion(t *testing.T) {
	laid(t)
	for text, want := range map[string][]string{
		"curfew ''":                               {"approve", "completion", "convert", "defaults", "expire-now", "expiring", "explain", "extend", "help", "keep", "lint", "options", "pause", "preview", "report", "resume", "status", "tally", "test", "uninstall", "unused", "version"},
		"curfew exp":                              {"expire-now", "expiring", "explain"},
		"curfew expiring dep":                     {"deployments.apps"},
		"curfew explain -n foo deploy/":           {"deploy/evening", "deploy/web", "deploy/weekend"},
		"curfew explain job -n ci ''":             {"active", "build"},
		"curfew extend -n foo deployment.apps/we": {"deployment.apps/web", "deployment.apps/weekend"},
		"curfew expiring -n la":                   {"lab"},
		"curfew expiring -o ''": {"table", "wide", "json", "yaml", "kyaml", "name", "go-template", "go-template-file",
			"jsonpath", "jsonpath-as-json", "jsonpath-file", "custom-columns", "custom-columns-file"},
		"curfew expiring --trigger ''":                 {"cleanup", "deadline", "label", "ttl"},
		"curfew keep --dry-run ''":                     {"client", "none", "server"},
		"curfew explain --context ''":                  {"curfew-local"},
		"curfew lint --native-ttl ''":                  {"off", "on"},
		"curfew completion ''":                         {"bash", "fish", "kubectl", "powershell", "zsh"},
		"curfew explain customresourcedefinitions.api": {"customresourcedefinitions.apiextensions.k8s.io"},
	} {
		got := typed(t, line{text: "kubectl __complete " + text})
		var have []string
		for suggested := range strings.Lines(got.stdout) {
			if suggested = strings.TrimSuffix(suggested, "\n"); !strings.HasPrefix(suggested, ":") {
				suggested, _, _ = strings.Cut(suggested, "\t")
				have = append(have, suggested)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("kubectl %s: %q, want %q\n%s", text, have, want, got.stderr)
		}
	}
	// The scripts of shells are for the program by its own name; that of kubectl is what make build
	// puts beside it.
	for shell, want := range map[string]string{"bash": "__start_kubectl-curfew", "zsh": "#compdef kubectl-curfew", "fish": "kubectl-curfew", "powershell": "kubectl-curfew"} {
		if got := kubectl(t, "curfew completion "+shell); !strings.Contains(got.stdout, want) {
			t.Errorf("%s: no %q", shell, want)
		}
	}
	if got := typed(t, line{text: "kubectl curfew completion kubectl | diff - ../../../../bin/kubectl_complete-curfew"}); got.code != 0 {
		t.Errorf("the script is another:\n%s%s", got.stdout, got.stderr)
	}
	if got := typed(t, line{text: "kubectl curfew completion tcsh"}); got.code != 2 ||
		got.stderr != "error: \"tcsh\" is not a known shell: give one of bash, fish, kubectl, powershell, zsh\n" {
		t.Errorf("exit status %d: %s", got.code, got.stderr)
	}
}
