package judging

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// A label on a Namespace that the API server never deletes keeps it, and is reported; nothing tries
// for ever.
func TestNamespacesThatAreNeverDeleted(t *testing.T) {
	namespaces := &policy.Profile{Name: "Namespace", Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), ClusterScoped: true}
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	for name, kept := range map[string]bool{"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": false, "ci": false} {
		facts := &policy.Facts{Profile: namespaces, Name: name, Created: now.Add(-time.Hour), Labels: map[string]string{wellknown.LabelTTL: "30m"}}
		verdict := JudgeLabel(facts, wellknown.LabelTTL, &resolution.Scope{}, now)
		if (verdict.Action == policy.Keep) != kept || (verdict.Err != nil) != kept {
			t.Errorf("%s: %s, %v; want it kept and reported: %v", name, verdict.Action, verdict.Err, kept)
		}
		brakes := Brakes(facts, &resolution.Scope{}, Surroundings{})
		if (len(brakes) > 0) != kept || kept && !strings.Contains(brakes[0].Message, "never deletes") {
			t.Errorf("%s: brakes %v, want one that says so: %t", name, brakes, kept)
		}
	}
	other := &policy.Facts{Profile: policy.PodProfile, Namespace: "default", Name: "default", Created: now.Add(-time.Hour), Labels: map[string]string{wellknown.LabelTTL: "30m"}}
	if verdict := JudgeLabel(other, wellknown.LabelTTL, &resolution.Scope{}, now); verdict.Action != policy.Delete {
		t.Errorf("a Pod default: %s, %v; want it deleted", verdict.Action, verdict.Err)
	}
}
