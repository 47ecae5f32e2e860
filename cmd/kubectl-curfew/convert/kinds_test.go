package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

// Kyverno compares kinds by case, lists none by a wildcard, and deletes no subresource. A kind by
// which it deletes nothing is not converted.
func TestKindSelectors(t *testing.T) {
	const form = "is converted as Kind or group/version/Kind only, with the kind's own case, without a wildcard or subresource"
	for kind, want := range map[string]string{
		"Pod":                   "/pods",
		"v1/Pod":                "/pods v1",
		"'*/Pod'":               "/pods",
		"Deployment":            "apps/deployments",
		"apps/v1/Deployment":    "apps/deployments v1",
		"apps/*/Deployment":     "apps/deployments",
		"'*/Deployment'":        "apps/deployments",
		"acme.io/v1/Widget":     "acme.io/widgets v1",
		"acme.io/v1/widget":     form,
		"v1/Deployment":         `is a kind without a group to Kyverno, which finds none: write "apps/v1/Deployment"`,
		"Widget":                "is not a kind of Kubernetes: write it as group/version/Kind",
		"apps/v1/DEPLOYMENT":    form,
		"pod":                   form,
		"v1/pod":                form,
		"Pod/status":            form,
		"Pod.status":            form,
		"'*/*/Deployment'":      form,
		"apps/first/Deployment": form,
		"'Deploy*'":             form,
		"'app*/v1/Deployment'":  form,
		"'apps/v1/'":            form,
		"'*'":                   form,
		"'apps/v1/*'":           form,
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
			if given, reason, _ := strings.Cut(f.Reason, "\" "); f.Lost && strings.HasSuffix(f.Field, "kinds[0]") && given != "" {
				reasons = append(reasons, reason)
			}
		}
		got := strings.Join(rules, "; ")
		if len(reasons) > 0 {
			got = strings.Join(reasons, "; ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		if len(reasons) > 0 && len(rules) > 0 {
			t.Errorf("%s: %q is deleted, and Kyverno deletes nothing", kind, rules)
		}
	}
}
