package feed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
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
		p, errs := expression.NewCompiler(10).Profile(&v1alpha1.KindProfile{ObjectMeta: metav1.ObjectMeta{Name: "users"}, Spec: v1alpha1.KindProfileSpec{
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
		profile.Runtime = p.Runtime
		r.run("a", wellknown.AnnotationActiveDeadline, "10s")
		r.run("b")
		r.follow(profile)
		at(time.Minute)
		r.expect("after the deadline of one", "a Failed=True/DeadlineExceeded; b; ")
	})
}

// A tenant decides how large a runtime is. One that is too large is judged again when it changes,
// and does not have the whole kind listed each minute, as one that cannot be read for the moment.
func TestRuntimeThatIsTooLarge(t *testing.T) {
	for err, again := range map[error]bool{apierrors.NewRequestEntityTooLargeError("3 MB"): false, errors.New("no answer"): true} {
		f := &Feed{log: logr.Discard()}
		from := &tolerant{Source: unanswered{err: err}, feed: f, facts: &policy.Facts{Profile: policy.JobProfile}, snapshot: platform.SnapshotOf(nil, nil)}
		if _, got := from.Runtime(t.Context(), &expression.Reference{}); !errors.Is(got, err) || f.unread.Load() != again {
			t.Errorf("%v: got %v, and all is judged again: %t, want %t", err, got, f.unread.Load(), again)
		}
	}
}

type unanswered struct {
	platform.Source
	err error
}

func (u unanswered) Runtime(context.Context, *expression.Reference) (map[string]any, error) {
	return nil, u.err
}
