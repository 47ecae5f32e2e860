package feed

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// A runtime that cannot be read does not disable a deadline that the object has itself, nor does it
// keep what has failed from being stopped.
func TestOwnDeadlineWithoutItsRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		over(&r.options, func(r *reads) { r.runtimes = runtimes{&lagging{blind: true, fails: true}} })
		kind, group := "Recipe", "example.com"
		of, errs := expression.NewCompiler(10).Profile(&v1alpha1.KindProfile{ObjectMeta: metav1.ObjectMeta{Name: "users"}, Spec: v1alpha1.KindProfileSpec{
			Kind:  v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "User", Resource: "users"},
			State: &v1alpha1.StateExpressions{Finished: "false", FinishTime: "null", Outcome: `"Failed"`},
			Runtime: &v1alpha1.Runtime{
				Reference: v1alpha1.RuntimeReference{Name: "metadata.name", DefaultKind: &kind, DefaultAPIGroup: &group},
				Kinds:     []v1alpha1.RuntimeKind{{ProfiledKind: v1alpha1.ProfiledKind{Group: group, Version: "v1", Kind: kind, Resource: "recipes"}}},
			},
		}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		profile := runProfile(t)
		profile.Runtime = of.Runtime
		r.run("a", wellknown.AnnotationActiveDeadline, "10s")
		r.run("b")
		r.follow(profile)
		at(time.Minute)
		r.expect("after the deadline of one", "a Failed=True/DeadlineExceeded; b; ")
	})
}
