package policy

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A label on a Namespace that the API server never deletes keeps it, and is reported; nothing tries
// for ever.
func TestNamespacesThatAreNeverDeleted(t *testing.T) {
	namespaces := &Profile{Name: "Namespace", Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), ClusterScoped: true}
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	for name, kept := range map[string]bool{"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": false, "ci": false} {
		facts := &Facts{Profile: namespaces, Name: name, Created: now.Add(-time.Hour), Labels: map[string]string{LabelTTL: "30m"}}
		verdict := JudgeLabel(facts, LabelTTL, &Scope{}, now)
		if (verdict.Action == Keep) != kept || (verdict.Err != nil) != kept {
			t.Errorf("%s: %s, %v; want it kept and reported: %v", name, verdict.Action, verdict.Err, kept)
		}
		brakes := Brakes(facts, &Scope{}, Surroundings{})
		if (len(brakes) > 0) != kept || kept && !strings.Contains(brakes[0].Message, "never deletes") {
			t.Errorf("%s: %v", name, brakes)
		}
	}
	other := &Facts{Profile: PodProfile, Namespace: "default", Name: "default", Created: now.Add(-time.Hour), Labels: map[string]string{LabelTTL: "30m"}}
	if verdict := JudgeLabel(other, LabelTTL, &Scope{}, now); verdict.Action != Delete {
		t.Errorf("a Pod default: %s, %v; want it deleted", verdict.Action, verdict.Err)
	}
}
