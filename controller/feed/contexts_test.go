package feed

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/contexts"
)

// What never finishes has a feed for its label alone, which asks for no more than the bounds of
// policies.
func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		t.Run(name, func(t *testing.T) {
			from := contexts.Source{Case: test, T: t}
			snapshot := test.Store(t).Snapshot()
			facts, object := test.Facts(t, snapshot)
			kind := Kind{
				Profile: facts.Profile, Runtime: snapshot.RuntimeOf(facts.Profile.Kind.GroupKind()),
				JSON: func(runtime.Object) (map[string]any, error) { return object, nil },
			}
			if facts.Profile.State == nil {
				kind.Label = wellknown.LabelTTL
			}
			failures := 0
			f := &Feed{kind: kind, options: Options{Cached: from, Live: follow.Share(from), Failed: func(_ string, errs []error) { failures += len(errs) }}}
			for _, live := range []bool{false, true} {
				failures = 0
				found, err := f.context(t.Context(), facts, &unstructured.Unstructured{Object: object}, live)
				must(t, err)
				if have := contexts.Render(&found.Scope, failures); have != test.Want {
					t.Errorf("live %v: have %s\nwant %s", live, have, test.Want)
				}
			}
		})
	}
}
