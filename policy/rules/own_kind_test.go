package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// No object of Curfew's own kinds may have a TTL label, whatever it says.
func TestOwnKind(t *testing.T) {
	own := policy.Profiles{}.For(schema.GroupVersionKind{Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"})
	labelled := func(key, text string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{key: text}}}
	}
	const why = ": Curfew never deletes a LifecyclePolicy by label: remove the label"
	for _, text := range []string{"1d", "soon", "2020-01-01"} {
		object := labelled(wellknown.LabelTTL, text)
		equal(t, judge(ownKind, own, Request{Now: noon}, nil, object), []string{"error metadata.labels[curfew.dev/ttl]" + why})
		equal(t, judge(ownKind, own, Request{Now: noon}, object, object), nil)
		equal(t, judge(ownKind, own, Request{Now: noon}, labelled("a", "b"), object), []string{"error metadata.labels[curfew.dev/ttl]" + why})
		for _, other := range []Rule{ttlLabel, expiredLabel} {
			equal(t, judge(other, own, Request{Now: noon}, nil, object), nil)
		}
	}
	alias := labelled(wellknown.LabelKyvernoTTL, "1d")
	equal(t, judge(ownKind, own, Request{Now: noon}, nil, alias), nil)
	equal(t, judge(ownKind, own, Request{Now: noon, Options: Options{KyvernoLabel: true}}, nil, alias), []string{"error metadata.labels[cleanup.kyverno.io/ttl]" + why})
	equal(t, judge(ownKind, policy.JobProfile, Request{Now: noon}, nil, job().Label(wellknown.LabelTTL, "1d").Map()), nil)
}
