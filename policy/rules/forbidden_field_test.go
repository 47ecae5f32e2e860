package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// A label in the claim templates of a StatefulSet would delete the volumes under its Pods.
func TestLabelInAClaimTemplate(t *testing.T) {
	claim := func(labels map[string]any) map[string]any {
		return object("StatefulSet", map[string]any{"template": map[string]any{}, "volumeClaimTemplates": []any{
			map[string]any{"metadata": map[string]any{"name": "logs"}}, map[string]any{"metadata": map[string]any{"name": "data", "labels": labels}}}})
	}
	labelled := claim(map[string]any{wellknown.LabelTTL: "7d"})
	equal(t, judge(forbiddenField, policy.StatefulSetProfile, Request{}, nil, labelled), []string{
		"error spec.volumeClaimTemplates[1].metadata.labels[curfew.dev/ttl]: must not be set: the objects that a StatefulSet creates inherit it, and a deleted one is created again: set metadata.labels[curfew.dev/ttl] on the StatefulSet"})
	equal(t, judge(forbiddenField, policy.StatefulSetProfile, Request{}, labelled, labelled), nil)
	equal(t, judge(forbiddenField, policy.StatefulSetProfile, Request{}, nil, claim(map[string]any{"app": "db"})), nil)
}
