package webhookconfig

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Requirements that others add to a namespaceSelector stay, and are reported.
// Without Curfew's own requirements, or with changed ones, the selector is written again.
func TestKeeperNeverFightsOverForeignRequirements(t *testing.T) {
	kinds := jobSets(t)
	enforced := metav1.LabelSelectorRequirement{Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}}
	add := func(s *metav1.LabelSelector) { s.MatchExpressions = append(s.MatchExpressions, enforced) }
	kinded := []string{"MutatingWebhookConfiguration curfew-kinds: control-plane notin (true)"}
	for name, test := range map[string]struct {
		change  func(*metav1.LabelSelector)
		verbs   []string
		foreign []string
	}{
		"added":            {add, nil, kinded},
		"added as a label": {func(s *metav1.LabelSelector) { s.MatchLabels = map[string]string{"a": "b"} }, nil, []string{"MutatingWebhookConfiguration curfew-kinds: a in (b)"}},
		"in another order": {func(s *metav1.LabelSelector) {
			s.MatchExpressions = append([]metav1.LabelSelectorRequirement{enforced}, s.MatchExpressions...)
		}, nil, kinded},
		"ours removed": {func(s *metav1.LabelSelector) {
			s.MatchExpressions = []metav1.LabelSelectorRequirement{enforced}
		}, []string{"update"}, nil},
		"ours changed": {func(s *metav1.LabelSelector) {
			add(s)
			s.MatchExpressions[0].Values = []string{"team-a"}
		}, []string{"update"}, nil},
		"all removed": {func(s *metav1.LabelSelector) { *s = metav1.LabelSelector{} }, []string{"update"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(t, kinds)
				s.mutating.set(t, staticMutating())
				after(2 * time.Second)
				s.mutating.expect(t, "first", "create")
				created := s.mutating.get(t)
				s.mutating.editWebhooks(t, func(w *admissionv1.MutatingWebhook) { test.change(w.NamespaceSelector) })
				edited := s.mutating.get(t)
				after(time.Hour)
				s.mutating.expect(t, name, test.verbs...)
				want := edited
				if len(test.verbs) > 0 {
					want = created
				}
				have := settings.Fingerprint(s.mutating.get(t).Webhooks)
				if have != settings.Fingerprint(want.Webhooks) {
					t.Errorf("its webhooks are %+v", s.mutating.get(t).Webhooks)
				}
				wanted, foreign, err := s.State()
				if err != nil || wanted["MutatingWebhookConfiguration"] != have || !slices.Equal(foreign, test.foreign) {
					t.Errorf("state %v, %q, %v; want %s, %q", wanted, foreign, err, have, test.foreign)
				}
			})
		})
	}
}

// A plan that selects more replaces a selector, although that has all that the plan wants: the rest is
// Curfew's own, of the earlier plan. What others then add stays.
func TestKeeperReplacesSelectorsOfAnotherPlan(t *testing.T) {
	kinds := jobSets(t)
	for name, again := range map[string]bool{"the same process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
				policies := func() ([]*v1alpha1.LifecyclePolicy, error) {
					mu.Lock()
					defer mu.Unlock()
					return []*v1alpha1.LifecyclePolicy{{
						ObjectMeta: metav1.ObjectMeta{Name: "p"},
						Spec: v1alpha1.LifecyclePolicySpec{
							Match:    v1alpha1.Match{NamespaceSelector: team},
							Defaults: &v1alpha1.Defaults{Deadline: &v1alpha1.DurationValue{}},
						},
					}}, nil
				}
				s := beginWith(t, kinds, func(o *Options) { o.Policies = policies })
				s.mutating.set(t, staticMutating())
				after(2 * time.Second)
				narrow := settings.Fingerprint(s.mutating.get(t).Webhooks)
				if again {
					store := s.mutating
					s.stop()
					s = beginWith(t, kinds, func(o *Options) { o.Policies, o.Mutating = policies, store })
					s.mutating = store
				}
				mu.Lock()
				team = nil
				mu.Unlock()
				s.Again()
				after(time.Hour)
				wide := s.mutating.get(t)
				if settings.Fingerprint(wide.Webhooks) == narrow || hasKey(wide, "team") {
					t.Fatalf("the selectors still are %+v", wide.Webhooks)
				}
				s.mutating.editWebhooks(t, func(webhook *admissionv1.MutatingWebhook) {
					webhook.NamespaceSelector.MatchExpressions = append(webhook.NamespaceSelector.MatchExpressions,
						metav1.LabelSelectorRequirement{Key: "control-plane", Operator: metav1.LabelSelectorOpExists})
				})
				after(time.Hour)
				if _, foreign, err := s.State(); err != nil || !hasKey(s.mutating.get(t), "control-plane") || len(foreign) != 1 {
					t.Errorf("what others added: %q, %v; %+v", foreign, err, s.mutating.get(t).Webhooks)
				}
			})
		})
	}
}

// A plan that the API server refuses is made again with shorter conditions, which send more. Else
// the configuration would stay as it was, and requests would bypass Curfew.
func TestKeeperCoarsensARefusedPlan(t *testing.T) {
	kinds := jobSets(t)
	for name, test := range map[string]struct {
		answer error
		coarse bool
	}{
		"none":      {nil, false},
		"forbidden": {apierrors.NewForbidden(resource, Name, nil), false},
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{}, Name, nil), true},
		"too large": {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := beginWith(t, kinds, func(o *Options) {
					o.Policies = func() (out []*v1alpha1.LifecyclePolicy, err error) {
						for _, team := range []string{"a", "b"} {
							policy := &v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: team}}
							policy.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
							policy.Spec.Defaults = &v1alpha1.Defaults{Deadline: &v1alpha1.DurationValue{}}
							out = append(out, policy)
						}
						return out, nil
					}
				})
				s.mutating.breakWith(test.answer)
				s.mutating.set(t, staticMutating())
				after(10 * time.Second)
				s.mutating.breakWith(nil)
				after(time.Hour)
				if fine := hasKey(s.mutating.get(t), "team"); fine == test.coarse {
					t.Errorf("it selects by the teams of policies: %t, want %t", fine, !test.coarse)
				}
			})
		})
	}
}

// editWebhooks changes each webhook of the stored configuration.
func (s *store) editWebhooks(t *testing.T, change func(*admissionv1.MutatingWebhook)) {
	t.Helper()
	own := s.get(t)
	for i := range own.Webhooks {
		change(&own.Webhooks[i])
	}
	s.set(t, own)
}

// hasKey reports whether a namespaceSelector of a configuration has a requirement of a label.
func hasKey(configuration *admissionv1.MutatingWebhookConfiguration, key string) bool {
	return slices.ContainsFunc(configuration.Webhooks, func(webhook admissionv1.MutatingWebhook) bool {
		return slices.ContainsFunc(allRequirements(webhook.NamespaceSelector), func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
	})
}

// The static configuration is never written. What its namespaceSelectors have beside the keys of
// Curfew is reported.
func TestForeignRequirementsOfTheStaticConfiguration(t *testing.T) {
	static := staticMutating()
	static.Kind, static.Name = "MutatingWebhookConfiguration", "curfew"
	static.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"curfew-system"}},
			{Key: "curfew.dev/in-use", Operator: metav1.LabelSelectorOpExists},
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"team-a"}},
			{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: "curfew.dev/in-use", Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: "curfew.dev/other", Operator: metav1.LabelSelectorOpExists},
		},
	}
	want := []string{"MutatingWebhookConfiguration curfew: !control-plane", "MutatingWebhookConfiguration curfew: curfew.dev/in-use",
		"MutatingWebhookConfiguration curfew: curfew.dev/other", "MutatingWebhookConfiguration curfew: kubernetes.io/metadata.name notin (team-a)"}
	if got := foreignIn(static, "curfew-system"); !slices.Equal(got, want) {
		t.Errorf("foreign are %q, want %q", got, want)
	}
}
