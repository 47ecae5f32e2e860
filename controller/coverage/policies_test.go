package coverage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

func matches(t *testing.T, requirements []metav1.LabelSelectorRequirement, set labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: requirements})
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(set)
}

// Every namespace is in at most one cell, and the policies of that cell are exactly those that speak there; or there is one cell, from
// which all is sent.
func TestCellsExcludeEachOther(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	coarse, fine := 0, 0
	for range 300 {
		var speakers []*speaker
		for i := range 1 + random.IntN(4) {
			p := newSpeaker(&v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: v1alpha1.LifecyclePolicySpec{
				Match: v1alpha1.Match{NamespaceSelector: someSelector(random, 2)}}})
			speakers = append(speakers, p)
		}
		all := cells(speakers)
		if len(all) > 1<<maxRequirements {
			t.Fatalf("%d cells", len(all))
		}
		if len(all) == 1 && len(all[0].namespaces) == 0 {
			coarse++
			if len(all[0].speakers) != len(speakers) {
				t.Errorf("%d of %d policies", len(all[0].speakers), len(speakers))
			}
			continue
		}
		fine++
		for _, set := range everyLabels() {
			var in []*cell
			for i := range all {
				if matches(t, all[i].namespaces, set) {
					in = append(in, &all[i])
				}
			}
			var want, have []string
			for _, p := range speakers {
				if matches(t, p.namespaces, set) {
					want = append(want, p.name)
				}
			}
			if len(in) > 1 {
				t.Fatalf("a namespace with %v is in %d cells", set, len(in))
			}
			for _, of := range in {
				for _, p := range of.speakers {
					have = append(have, p.name)
				}
			}
			if !slices.Equal(have, want) {
				t.Fatalf("in a namespace with %v policies %v speak, want %v", set, have, want)
			}
		}
	}
	if coarse == 0 || fine == 0 {
		t.Errorf("%d coarse, %d fine: the test has to see both", coarse, fine)
	}
}

// A selector in CEL means what it means to the API server.
func TestSelectorsInCEL(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sets := everyLabels()
	for range 25 {
		selector := someSelector(random, 3)
		text := selects(requirements(selector))
		plain, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			set := sets[random.IntN(len(sets))]
			object := map[string]any{"metadata": map[string]any{"labels": anyMap(set)}}
			if got, want := condition(t, text, object, nil), plain.Matches(set); got != want {
				t.Fatalf("%s on %v: %t, want %t (%s)", metav1.FormatLabelSelector(selector), set, got, want, text)
			}
		}
		if got, want := condition(t, text, map[string]any{}, nil), plain.Matches(labels.Set{}); got != want {
			t.Fatalf("%s without labels: %t, want %t", metav1.FormatLabelSelector(selector), got, want)
		}
	}
}

func anyMap(set labels.Set) map[string]any {
	out := map[string]any{}
	for key, value := range set {
		out[key] = value
	}
	return out
}

// What the API server would not take as a selector must not get into a configuration, where it would take all others along.
func TestUnusableSelectorsAreLeftOut(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"operator": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near", Values: []string{"b"}}}},
		"values":   {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}},
		"key":      {MatchLabels: map[string]string{"a b": "c"}},
		"value":    {MatchLabels: map[string]string{"a": "b c"}},
		"in":       {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{strings.Repeat("x", 64)}}}},
	} {
		for _, match := range []v1alpha1.Match{{NamespaceSelector: selector}, {ObjectSelector: selector}} {
			if newSpeaker(&v1alpha1.LifecyclePolicy{Spec: v1alpha1.LifecyclePolicySpec{Match: match}}) != nil {
				t.Errorf("%s: it is used", name)
			}
		}
	}
	if newSpeaker(&v1alpha1.LifecyclePolicy{}) == nil {
		t.Error("a policy without selectors is not used")
	}
}

// Cells that no namespace can be in are no webhooks.
func TestImpossibleCellsAreLeftOut(t *testing.T) {
	var speakers []*speaker
	for _, value := range []string{"dev", "prod"} {
		speakers = append(speakers, newSpeaker(&v1alpha1.LifecyclePolicy{Spec: v1alpha1.LifecyclePolicySpec{
			Match: v1alpha1.Match{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": value}}}}}))
	}
	if got := cells(speakers); len(got) != 2 {
		t.Errorf("%d cells for env=dev and env=prod, want 2", len(got))
	}
}
