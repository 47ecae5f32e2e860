package webhookconfig

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	someKeys   = []string{"env", "team", "example.com/tier"}
	someValues = []string{"a", "b", ""}
)

func someSelector(random *rand.Rand, most int) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for range random.IntN(most + 1) {
		requirement := metav1.LabelSelectorRequirement{Key: someKeys[random.IntN(len(someKeys))]}
		switch random.IntN(5) {
		case 0:
			metav1.AddLabelToSelector(out, requirement.Key, someValues[random.IntN(len(someValues))])
			continue
		case 1:
			requirement.Operator, requirement.Values = metav1.LabelSelectorOpIn, someValues[:1+random.IntN(3)]
		case 2:
			requirement.Operator, requirement.Values = metav1.LabelSelectorOpNotIn, someValues[random.IntN(3):]
		case 3:
			requirement.Operator = metav1.LabelSelectorOpExists
		case 4:
			requirement.Operator = metav1.LabelSelectorOpDoesNotExist
		}
		out.MatchExpressions = append(out.MatchExpressions, requirement)
	}
	return out
}

// everyLabels are all sets of labels that can be made of the keys and values.
func everyLabels() []labels.Set {
	out := []labels.Set{{}}
	for _, key := range someKeys {
		for _, set := range slices.Clone(out) {
			for _, value := range append(slices.Clone(someValues), "other") {
				more := labels.Set{key: value}
				for k, v := range set {
					more[k] = v
				}
				out = append(out, more)
			}
		}
	}
	return out
}

func matches(t *testing.T, labelSelector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(labelSelector)
	must(t, err)
	return selector.Matches(set)
}

// An object that a policy selects is sent, and others are not, unless policies have more different
// selectors than webhooks would do.
func TestSelectedObjectsAreSent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sets := everyLabels()
	everything, sent, kept := 0, 0, 0
	for range 300 {
		input := &Input{Namespace: "curfew-system"}
		for i := range 1 + random.IntN(maxSelections+3) {
			input.Policies = append(input.Policies, &v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: v1alpha1.LifecyclePolicySpec{
				Match:    v1alpha1.Match{NamespaceSelector: someSelector(random, 2), ObjectSelector: someSelector(random, 2)},
				Defaults: &v1alpha1.Defaults{Deadline: &v1alpha1.DurationValue{}}}})
		}
		all := newPlan(input).mutating
		if len(all) > maxSelections {
			t.Fatalf("%d webhooks", len(all))
		}
		coarse := len(all) == 1 && len(all[0].NamespaceSelector.MatchExpressions) == 2 && len(all[0].ObjectSelector.MatchExpressions) == 0
		for range 50 {
			namespace, object := sets[random.IntN(len(sets))], sets[random.IntN(len(sets))]
			want := slices.ContainsFunc(input.Policies, func(p *v1alpha1.LifecyclePolicy) bool {
				return matches(t, p.Spec.Match.NamespaceSelector, namespace) && matches(t, p.Spec.Match.ObjectSelector, object)
			})
			have := slices.ContainsFunc(all, func(e admissionv1.MutatingWebhook) bool {
				return matches(t, e.NamespaceSelector, namespace) && matches(t, e.ObjectSelector, object)
			})
			switch {
			case coarse:
				everything++
				want = true
			case want:
				sent++
			default:
				kept++
			}
			if have != want {
				t.Fatalf("an object with %v in a namespace with %v is sent: %t, want %t", object, namespace, have, want)
			}
		}
	}
	if everything == 0 || sent == 0 || kept == 0 {
		t.Errorf("%d everything, %d sent, %d not sent: the test has to see all", everything, sent, kept)
	}
}

// What the API server would not take as a selector must not get into a configuration, where it
// would take all others along.
func TestUnusableSelectorsAreLeftOut(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"operator": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near", Values: []string{"b"}}}},
		"values":   {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}},
		"key":      {MatchLabels: map[string]string{"a b": "c"}},
		"value":    {MatchLabels: map[string]string{"a": "b c"}},
		"in":       {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{strings.Repeat("x", 64)}}}},
	} {
		for _, match := range []v1alpha1.Match{{NamespaceSelector: selector}, {ObjectSelector: selector}} {
			if got := selections([]*v1alpha1.LifecyclePolicy{{Spec: v1alpha1.LifecyclePolicySpec{Match: match}}}); got != nil {
				t.Errorf("%s: it is used", name)
			}
		}
	}
	if got := selections([]*v1alpha1.LifecyclePolicy{{}}); len(got) != 1 {
		t.Error("a policy without selectors is not used")
	}
}

// A new object is not sent for the default of a trigger that is switched off.
func TestDefaultsThatAreSwitchedOff(t *testing.T) {
	ttl, deadline, label := &v1alpha1.TTLValue{}, &v1alpha1.DurationValue{}, &v1alpha1.LabelValue{}
	for name, test := range map[string]struct {
		defaults v1alpha1.Defaults
		off      policy.Trigger
	}{
		"ttl":           {v1alpha1.Defaults{TTL: ttl}, policy.TriggerTTL},
		"by outcome":    {v1alpha1.Defaults{TTLFailed: ttl}, policy.TriggerTTL},
		"deadline":      {v1alpha1.Defaults{Deadline: deadline}, policy.TriggerDeadline},
		"label":         {v1alpha1.Defaults{TTLLabel: label}, policy.TriggerLabel},
		"more defaults": {v1alpha1.Defaults{TTL: ttl, Deadline: deadline}, ""},
	} {
		input := &Input{Namespace: "curfew-system", Policies: []*v1alpha1.LifecyclePolicy{{Spec: v1alpha1.LifecyclePolicySpec{
			Match: v1alpha1.Match{Kinds: []v1alpha1.GroupKind{{Group: "batch", Kind: "Job"}}}, Defaults: &test.defaults}}}}
		if sent := len(newPlan(input).mutating); sent == 0 {
			t.Errorf("%s: not sent although all is on", name)
		}
		for _, off := range []policy.Trigger{policy.TriggerTTL, policy.TriggerLabel, policy.TriggerDeadline} {
			input.Off = []policy.Trigger{off}
			if sent := len(newPlan(input).mutating) > 0; sent != (off != test.off) {
				t.Errorf("%s: with %s off, sent %t", name, off, sent)
			}
		}
	}
}
