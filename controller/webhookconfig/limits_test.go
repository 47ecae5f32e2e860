package webhookconfig

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// However many policies and kinds there are, the API server takes the configurations: expressions
// of at most 100,000 characters, and objects of about 1.5 MB. What it would have to be asked is not
// asked then, and more is sent.
func TestManyPoliciesStayWithinTheLimits(t *testing.T) {
	many := func(count int, selectors func(i int) v1alpha1.Match) []*v1alpha1.LifecyclePolicy {
		var out []*v1alpha1.LifecyclePolicy
		for i := range count {
			deadline := v1alpha1.Duration("1h")
			out = append(out, &v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: v1alpha1.LifecyclePolicySpec{
				Match:    selectors(i),
				Defaults: &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{}},
				Bounds:   &v1alpha1.Bounds{MaxDeadline: &deadline, MaxTTL: &deadline},
			}})
		}
		return out
	}
	labelled := func(i int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprintf("team-%d.example.com/with-a-long-name", i): strings.Repeat("v", 63)}}
	}
	values := make([]string, 20000)
	for i := range values {
		values[i] = fmt.Sprintf("value-%d", i)
	}
	huge := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	for name, input := range map[string]*Input{
		"selectors of objects": {Kinds: builtinKinds(t), Policies: many(500, func(i int) v1alpha1.Match { return v1alpha1.Match{ObjectSelector: labelled(i)} })},
		"selectors of namespaces": {Kinds: builtinKinds(t), Policies: many(500, func(i int) v1alpha1.Match {
			return v1alpha1.Match{NamespaceSelector: labelled(i % 3), ObjectSelector: labelled(i)}
		})},
		"one huge selector": {Kinds: builtinKinds(t), Policies: many(1, func(int) v1alpha1.Match { return v1alpha1.Match{ObjectSelector: huge, NamespaceSelector: huge} })},
		"many kinds":        {Kinds: manyKinds(t, 600), Policies: many(1, func(int) v1alpha1.Match { return v1alpha1.Match{} })},
	} {
		t.Run(name, func(t *testing.T) {
			input.Namespace, input.Controller, input.Alias = "curfew-system", "curfew-controller", true
			mutating, validating := Configurations(input, staticMutating(), staticValidating())
			for _, object := range []any{mutating, validating} {
				if text, err := json.Marshal(object); err != nil || len(text) > 1_400_000 {
					t.Errorf("%d bytes (%v), want no more than the API server stores", len(text), err)
				}
			}
			all := newPlan(input)
			var given, judged bool
			for _, entries := range [][]admissionv1.MutatingWebhook{all.mutating, all.validating} {
				names := map[string]bool{}
				for _, entry := range entries {
					if names[entry.Name] || len(entry.MatchConditions) > 64 {
						t.Errorf("%s: %d conditions, or twice", entry.Name, len(entry.MatchConditions))
					}
					names[entry.Name] = true
					for _, condition := range entry.MatchConditions {
						if len(condition.Expression) > 50_000 {
							t.Errorf("%s %s: %d characters", entry.Name, condition.Name, len(condition.Expression))
						}
					}
				}
			}
			plain := object(t, "{metadata: {name: a, labels: {team-7.example.com/with-a-long-name: "+strings.Repeat("v", 63)+", a: value-7}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 5}}")
			for _, webhook := range all.mutating {
				given = given || sends(t, &webhook, plain)
			}
			for _, webhook := range all.validating {
				judged = judged || sends(t, &webhook, plain)
			}
			if !given || !judged {
				t.Errorf("a Job to which a policy applies is sent to be defaulted %t, to be validated %t", given, judged)
			}
		})
	}
}

// sends reports whether the conditions of a webhook for new Jobs let an object through, wherever it
// is.
func sends(t *testing.T, webhook *admissionv1.MutatingWebhook, with map[string]any) bool {
	t.Helper()
	for _, rule := range webhook.Rules {
		if rule.APIGroups[0] != policy.JobProfile.Kind.Group || rule.Resources[0] != "jobs" || rule.Operations[0] != admissionv1.Create {
			continue
		}
		for _, matchCondition := range webhook.MatchConditions {
			if !condition(t, matchCondition.Expression, with, nil) {
				return false
			}
		}
		return true
	}
	return false
}

func manyKinds(t *testing.T, count int) []platform.Served {
	t.Helper()
	kindProfile := profile(t, "{"+state+`, fields: {ttl: spec.ttl}, podTemplates: ["spec.a[*].template", "spec.b.template"]}`)
	p := compiled(t, kindProfile)[0]
	var out []platform.Served
	for i := range count {
		copied := *p.Profile
		copied.Kind.Kind, copied.Resource = fmt.Sprintf("Render%d", i), fmt.Sprintf("renders%d", i)
		wrapped := *p
		wrapped.Profile = &copied
		out = append(out, platform.Served{Profile: &wrapped})
	}
	return out
}
