package world

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestControllerIsReadAsItReadsItself: a value may stand behind its flag or in an argument of its own, and what runs beside the controller
// has no say. What is protected and shown as due, or the other way round, is an answer that is wrong.
func TestControllerIsReadAsItReadsItself(t *testing.T) {
	const usual = "kube-system kube-public kube-node-lease"
	for args, want := range map[string]string{
		"controller": "false false [" + usual + " here]",
		"controller --protect=prod,infra --dry-run":              "true false [prod infra here]",
		"controller --protect prod --protect infra":              "false false [prod infra here]",
		"controller --namespace other --kyverno-label":           "false true [" + usual + " other]",
		"controller --dry-run --protect prod --stuck-after 5m":   "true false [prod here]",
		"controller --stuck-after 5m --dry-run=false -v 2":       "false false [" + usual + " here]",
		"controller --protect":                                   "false false [" + usual + " here]",
		"/curfew all --dry-run --protect prod":                   "true false [prod here]",
		"controller --dry-run --protect=prod | proxy --drain 5s": "true false [prod here]",
		"proxy --dry-run | controller --protect=prod":            "false false [prod here]",
	} {
		var containers []any
		for container := range strings.SplitSeq(args, " | ") {
			var all []any
			for _, arg := range strings.Fields(container) {
				all = append(all, arg)
			}
			containers = append(containers, map[string]any{"args": all})
		}
		deployment := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}},
		}}
		var have Controller
		have.read(deployment, "here")
		if have := fmt.Sprint(have.DryRun, have.Alias, have.Protect); have != want {
			t.Errorf("%s: %s, want %s", args, have, want)
		}
	}
}
