package policy_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// noon is the instant the tests judge at.
var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

// annotated makes annotations of pairs; keys without a slash are Curfew's.
func annotated(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[wellknown.Prefix+pairs[i]] = pairs[i+1]
	}
	return out
}

// namespaceSince is a namespace whose defaults hold since an instant.
func namespaceSince(since time.Time, pairs ...string) *resolution.NamespacePolicy {
	annotations := annotated(pairs...)
	annotations[wellknown.AnnotationDefaultSince] = resolution.FormatSince(since, resolution.DefaultsHash(annotations))
	return resolution.ParseNamespace("ci", annotations, nil)
}

// namespaceOf is a namespace whose defaults hold since long ago.
func namespaceOf(pairs ...string) *resolution.NamespacePolicy {
	return namespaceSince(noon.Add(-1000*time.Hour), pairs...)
}

// ttls are what one level says, in the keys of object annotations.
func ttls(pairs ...string) lifetime.TTLSet {
	return (&policy.Facts{Profile: policy.JobProfile, Annotations: annotated(pairs...)}).TTLs()
}

func platform(name string, pairs ...string) *resolution.PlatformPolicy {
	return &resolution.PlatformPolicy{Name: name, TTL: ttls(pairs...), Since: noon.Add(-1000 * time.Hour)}
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", lines(got), lines(want))
	}
}

func lines(all []string) string {
	out := ""
	for _, line := range all {
		out += "  " + line + "\n"
	}
	return out
}

func controlledBy(controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "thing", Controller: &controller}
}
