package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

// Kyverno compares kinds by case, lists none by a wildcard, and deletes no subresource. A kind by
// which it deletes nothing is not converted, or is a finding that stops the conversion.
func TestKindSelectors(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod":                   "/pods",
		"v1/Pod":                "/pods v1",
		"'*/Pod'":               "/pods",
		"Deployment":            "apps/deployments",
		"apps/v1/Deployment":    "apps/deployments v1",
		"apps/*/Deployment":     "apps/deployments",
		"'*/Deployment'":        "apps/deployments",
		"acme.io/v1/Widget":     "acme.io/widgets v1",
		"pod":                   `matches no object, since Kyverno compares kinds by case: write "Pod"`,
		"v1/pod":                `matches no object, since Kyverno compares kinds by case: write "Pod"`,
		"acme.io/v1/widget":     "begins with a lower-case letter, and Kyverno compares kinds by case: write it as in the kind of an object",
		"v1/Deployment":         `is a kind without a group to Kyverno, which finds none: write "apps/v1/Deployment"`,
		"Widget":                "is not a kind of Kubernetes: write it as group/version/Kind",
		"Pod/status":            `is the subresource "status", and no object: name the kind alone`,
		"Pod.status":            `is the subresource "status", and no object: name the kind alone`,
		"'*/*/Deployment'":      `is the subresource "Deployment", and no object: name the kind alone`,
		"apps/first/Deployment": `has "first" as version: write a version such as v1, or *`,
		"'Deploy*'":             "has a wildcard, by which Kyverno finds no kind: name it",
		"'app*/v1/Deployment'":  "has a wildcard, by which Kyverno finds no kind: name it",
		"'apps/v1/'":            "names no kind: write it as Kind or group/version/Kind",
		"'*'":                   "broader: deletes nothing in Kyverno, which lists no kind by a wildcard: name the kinds",
		"'apps/v1/*'":           "broader: deletes nothing in Kyverno, which lists no kind by a wildcard: name the kinds",
	} {
		result := convert.Source("", []byte(fmt.Sprintf(withKind, kind)), options)
		var rules, reasons []string
		for _, p := range result.Policies {
			for _, rule := range p.Spec.MatchConstraints.ResourceRules {
				text := strings.Join(rule.APIGroups, ",") + "/" + strings.Join(rule.Resources, ",") + " " + strings.Join(rule.APIVersions, ",")
				rules = append(rules, strings.TrimSpace(text))
			}
		}
		for _, f := range result.Findings {
			if at, reason, _ := strings.Cut(f.Reason, "\" "); f.Lost && strings.HasSuffix(f.Field, "kinds[0]") && at != "" {
				reasons = append(reasons, map[bool]string{true: "broader: "}[f.Broader]+reason)
			}
		}
		got := strings.Join(rules, "; ")
		if len(reasons) > 0 {
			got = strings.Join(reasons, "; ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		if refused := want != got || len(reasons) > 0; refused && !strings.HasPrefix(want, "broader") && len(rules) > 0 {
			t.Errorf("%s: %q is deleted, and Kyverno deletes nothing", kind, rules)
		}
	}
}
