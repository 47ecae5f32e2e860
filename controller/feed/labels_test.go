package feed

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

func TestLabelsAreCarriedOutAtTheirSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put(config("old", wellknown.LabelTTL, "1m"))
		s.put(config("dated", wellknown.LabelTTL, in(10*time.Second)))
		s.put(config("plain"))
		s.put(config("bad", wellknown.LabelTTL, "soon"))
		s.put(config("alias", wellknown.LabelKyvernoTTL, "1m"))
		_, engine := stock(t, s, none(), nil, LabelledKind{})
		at(time.Second)
		if got := engine.Tracked(); got != 2 {
			t.Errorf("%d tracked, want the two that have a label that can be read", got)
		}
		s.put(config("new", wellknown.LabelTTL, in(3*time.Second)))
		at(2900 * time.Millisecond)
		expectOn(t, s, "ci/new", true)
		at(200 * time.Millisecond)
		expectOn(t, s, "ci/new", false)
		at(5800 * time.Millisecond) // 9.9s
		expectOn(t, s, "ci/dated", true)
		at(200 * time.Millisecond)
		expectOn(t, s, "ci/dated", false)
		at(49800 * time.Millisecond) // 59.9s
		expectOn(t, s, "ci/old", true)
		at(200 * time.Millisecond)
		expectOn(t, s, "ci/old", false)
		at(24 * time.Hour)
		for _, key := range []string{"ci/plain", "ci/bad", "ci/alias"} {
			expectOn(t, s, key, true)
		}
	})
}

// The label may be put on, raised, lowered and taken away at any time, the last second included.
func TestLabelsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for _, name := range []string{"taken", "raised", "lowered", "spoiled", "protected"} {
			s.put(config(name, wellknown.LabelTTL, in(10*time.Second)))
		}
		s.put(config("late"))
		_, engine := stock(t, s, none(), nil, LabelledKind{})
		at(9 * time.Second)
		s.label("ci/taken", "")
		s.label("ci/raised", in(20*time.Second))
		s.label("ci/lowered", in(-5*time.Second))
		s.label("ci/spoiled", "tomorrow")
		s.change("ci/protected", func(o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
		})
		s.label("ci/late", in(5*time.Second))
		at(100 * time.Millisecond)
		expectOn(t, s, "ci/lowered", false)
		if got := engine.Tracked(); got != 2 {
			t.Errorf("%d tracked, want raised and late", got)
		}
		at(6 * time.Second) // 15.1s
		expectOn(t, s, "ci/late", false)
		expectOn(t, s, "ci/raised", true)
		at(15 * time.Second) // 30.1s
		expectOn(t, s, "ci/raised", false)
		for _, key := range []string{"ci/taken", "ci/spoiled", "ci/protected"} {
			expectOn(t, s, key, true)
		}
	})
}

// S1: the label changes behind the watch, while the DELETE is on its way. Who deletes by name or
// UID alone deletes it.
func TestLabelChangedUnderTheDelete(t *testing.T) {
	for name, edit := range map[string]func(*metav1.PartialObjectMetadata){
		"raised":  func(o *metav1.PartialObjectMetadata) { o.Labels[wellknown.LabelTTL] = in(time.Hour) },
		"taken":   func(o *metav1.PartialObjectMetadata) { delete(o.Labels, wellknown.LabelTTL) },
		"spoiled": func(o *metav1.PartialObjectMetadata) { o.Labels[wellknown.LabelTTL] = "x" },
		"protected": func(o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newStore()
			s.put(config("a", wellknown.LabelTTL, in(10*time.Second)))
			stock(t, s, none(), nil, LabelledKind{})
			at(time.Second)
			s.cut() // deaf for a moment
			s.before(func(key string) { s.change(key, edit) })
			at(time.Minute)
			expectOn(t, s, "ci/a", true)
			if len(s.asked) != 1 {
				t.Errorf("%d DELETEs, want one, which met a conflict", len(s.asked))
			}
		})
	}
}

func TestProtectedAreNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for _, namespace := range []string{"kube-system", "curfew-system", "ci"} {
			o := config("a", wellknown.LabelTTL, in(time.Minute))
			o.Namespace, o.UID = namespace, types.UID(namespace)
			s.put(o)
		}
		stock(t, s, none(), nil, LabelledKind{})
		at(time.Hour)
		expectOn(t, s, "kube-system/a", true)
		expectOn(t, s, "curfew-system/a", true)
		expectOn(t, s, "ci/a", false)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for _, name := range []string{"kube-system", "curfew-system", "ci", "dry"} {
			o := config(name, wellknown.LabelTTL, in(time.Minute))
			o.Namespace = ""
			if name == "dry" {
				o.Annotations = map[string]string{wellknown.AnnotationMode: "dry-run"}
			}
			s.put(o)
		}
		stock(t, s, none(), nil, LabelledKind{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Resource: "namespaces", ClusterScoped: true})
		at(time.Hour)
		expectOn(t, s, "kube-system", true)
		expectOn(t, s, "curfew-system", true)
		expectOn(t, s, "ci", false)
	})
}

// S5: a Pod whose Job has not accounted for it stays; it goes as soon as that is done.
func TestLabelledPodOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		pod := config("pod", wellknown.LabelTTL, in(5*time.Second))
		pod.Finalizers = []string{wellknown.FinalizerJobTracking}
		s.put(pod)
		stock(t, s, none(), nil, LabelledKind{Kind: policy.PodProfile.Kind, Resource: "pods"})
		at(time.Hour)
		expectOn(t, s, "ci/pod", true)
		s.change("ci/pod", func(o *metav1.PartialObjectMetadata) { o.Finalizers = nil })
		at(100 * time.Millisecond)
		expectOn(t, s, "ci/pod", false)
	})
}

// The alias has a watch of its own, and says nothing where the label stands beside it.
func TestAlias(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put(config("kyverno", wellknown.LabelKyvernoTTL, in(5*time.Second)))
		s.put(config("both", wellknown.LabelKyvernoTTL, in(5*time.Second), wellknown.LabelTTL, in(time.Minute)))
		s.put(config("spoiled", wellknown.LabelKyvernoTTL, in(5*time.Second), wellknown.LabelTTL, "x"))
		s.put(config("moved", wellknown.LabelKyvernoTTL, in(5*time.Second)))
		s.put(config("back", wellknown.LabelKyvernoTTL, in(20*time.Second), wellknown.LabelTTL, in(5*time.Second)))
		stock(t, s, none(), nil, LabelledKind{}, LabelledKind{Alias: true})
		at(4 * time.Second)
		s.change("ci/moved", func(o *metav1.PartialObjectMetadata) { o.Labels[wellknown.LabelTTL] = in(time.Minute) })
		s.change("ci/back", func(o *metav1.PartialObjectMetadata) { delete(o.Labels, wellknown.LabelTTL) })
		at(2 * time.Second)
		expectOn(t, s, "ci/kyverno", false)
		for _, key := range []string{"ci/both", "ci/spoiled", "ci/moved", "ci/back"} {
			expectOn(t, s, key, true)
		}
		at(15 * time.Second) // 21s
		expectOn(t, s, "ci/back", false)
		at(time.Minute)
		expectOn(t, s, "ci/both", false)
		expectOn(t, s, "ci/moved", false)
		expectOn(t, s, "ci/spoiled", true)
	})
}

// A bound that comes later keeps what lies outside of it, and one that goes lets it go.
func TestBoundsOfLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newStore(), none()
		s.put(config("a", wellknown.LabelTTL, "2m"))
		feeds, engine := stock(t, s, n, nil, LabelledKind{})
		at(time.Second)
		n.set("ci", map[string]string{wellknown.AnnotationMaxTTL: "1m"})
		feeds[0].RejudgeNamespace("ci")
		at(time.Hour)
		expectOn(t, s, "ci/a", true)
		if engine.Tracked() != 0 {
			t.Error("it is tracked, and is not to go")
		}
		n.set("ci", map[string]string{wellknown.AnnotationMode: "dry-run"})
		feeds[0].RejudgeNamespace("ci")
		at(time.Minute)
		expectOn(t, s, "ci/a", true)
		n.set("ci", nil)
		feeds[0].RejudgeNamespace("ci")
		at(time.Second)
		expectOn(t, s, "ci/a", false)
	})
}

// A policy that has to see more than metadata: the object is read whole, once, before it would go,
// and not for anything else.
func TestPolicyThatNeedsTheWholeObject(t *testing.T) {
	limit := v1alpha1.Duration("1m")
	bounded := v1alpha1.LifecyclePolicySpec{
		Match:  v1alpha1.Match{MatchConditions: []v1alpha1.MatchCondition{{Name: "precious", Expression: "object.spec.precious"}}},
		Bounds: &v1alpha1.Bounds{MaxTTLLabel: &limit},
	}
	for name, row := range map[string]struct {
		precious any
		there    bool
		wholes   int32
	}{
		"it matches":         {true, true, 1},
		"it does not":        {false, false, 1},
		"it cannot be told":  {"perhaps", true, 1},
		"no condition asked": {nil, true, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newStore()
			spec := bounded
			if row.precious == nil {
				spec.Match = v1alpha1.Match{}
			}
			s.spec = map[string]any{"precious": row.precious}
			s.put(config("a", wellknown.LabelTTL, "5m"))
			stock(t, s, none(), func(o *Options) { over(o, func(r *reads) { r.policies = said(lifecycle(t, spec)) }) }, LabelledKind{})
			at(4 * time.Minute)
			if s.wholes.Load() != 0 {
				t.Error("it was read whole before its time")
			}
			at(2 * time.Minute)
			expectOn(t, s, "ci/a", row.there)
			if s.wholes.Load() != row.wholes {
				t.Errorf("read whole %d times, want %d", s.wholes.Load(), row.wholes)
			}
		})
	}
}

// A policy that asks for the runtime of an object bounds its label as at admission, where the
// runtime is known: else what it bounds would go early, or what it does not bound be kept for ever.
func TestPolicyThatAsksForTheRuntime(t *testing.T) {
	limit := v1alpha1.Duration("1h")
	bounded := v1alpha1.LifecyclePolicySpec{
		Match:  v1alpha1.Match{MatchConditions: []v1alpha1.MatchCondition{{Name: "torch", Expression: `runtime != null && runtime.metadata.name == "torch"`}}},
		Bounds: &v1alpha1.Bounds{MinTTLLabel: &limit},
	}
	for name, row := range map[string]struct {
		label string // that names the runtime
		live  map[string]any
		fails bool
		there bool
		// condition of the policy, where it is another.
		condition v1alpha1.Expression
	}{
		"it matches":               {label: "torch", live: ttlOf(30), there: true},
		"another runtime":          {label: "torch", live: map[string]any{"metadata": map[string]any{"name": "other"}}},
		"no such runtime":          {label: "torch"},
		"it uses none":             {live: ttlOf(30)},
		"the runtime is not known": {label: "torch", live: ttlOf(30), fails: true, there: true},
		"condition is false":       {label: "torch", live: ttlOf(30), fails: true, condition: "false"},
	} {
		inBubble(t, name, func(t *testing.T) {
			spec := bounded
			if row.condition != "" {
				spec.Match.MatchConditions = []v1alpha1.MatchCondition{{Name: "other", Expression: row.condition}}
			}
			s, runtime := newStore(), labelledRuntime(t)
			object := config("a", wellknown.LabelTTL, "5m")
			if row.label != "" {
				object.Labels["runtime"] = row.label
			}
			s.put(object)
			stock(t, s, none(), func(o *Options) {
				over(o, func(r *reads) {
					r.policies, r.runtimes = said(lifecycle(t, spec)), runtimes{&lagging{now: row.live, fails: row.fails}}
					r.profile = func() *expression.Profile {
						return &expression.Profile{Profile: &policy.Profile{Kind: configMap}, Runtime: runtime}
					}
				})
			}, LabelledKind{})
			at(10 * time.Minute)
			expectOn(t, s, "ci/a", row.there)
		})
	}
}
