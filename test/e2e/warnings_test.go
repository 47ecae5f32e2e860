package e2e

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy/wellknown"
)

// Every decision is in the API server's audit log, under the name of the webhook.
func TestAuditAnnotations(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	s.expectSuccess(s.create(job("default")))
	if out := s.create(job("long", native(8*24*time.Hour), annotated("helm.sh/hook", "test"))); !out.failed {
		t.Fatal("it was not refused")
	}
	audited, err := suite.cluster.Audited(s.name)
	s.ok(err)
	for name, want := range map[string]map[string]string{
		"default": {
			"defaults.curfew.dev/decision": "defaulted", "defaults.curfew.dev/source": "namespace/" + s.name,
			"validate.curfew.dev/decision": "defaulted", "validate.curfew.dev/source": "namespace/" + s.name,
		},
		"long": {
			"defaults.curfew.dev/decision": "allowed", "defaults.curfew.dev/source": "object",
			"validate.curfew.dev/decision": "denied", "validate.curfew.dev/source": "object", "validate.curfew.dev/rules": "bounds,hook-job",
		},
	} {
		for key, value := range want {
			if got := audited[name][key]; got != value {
				t.Errorf("the audit log says %s=%q of %s, want %q", key, got, name, value)
			}
		}
		if got := len(curfews(audited[name])); got != len(want) {
			t.Errorf("the audit log says %v of %s, want %v", curfews(audited[name]), name, want)
		}
	}
}

func curfews(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		if webhook, _, _ := strings.Cut(key, "/"); strings.HasSuffix(webhook, ".curfew.dev") {
			out[key] = value
		}
	}
	return out
}
