package webhook

import (
	"testing"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/test/contexts"
)

func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		t.Run(name, func(t *testing.T) {
			from := contexts.Source{Case: test, T: t}
			w := newWorld(t, func(o *Options) { o.Platform, o.Namespaces, o.Runtimes = test.Store(t), from, from })
			facts, object := test.Facts(t, w.webhooks.source.store.Snapshot())
			for _, bare := range []bool{false, true} {
				before := w.count(t, "curfew_admission_policy_errors_total")
				scope, err := w.webhooks.scopeOf(t.Context(), platform.Whole(facts, object), bare)
				must(t, err)
				failures := int(w.count(t, "curfew_admission_policy_errors_total") - before)
				if have := contexts.Render(scope, failures); have != test.Want {
					t.Errorf("have %s\nwant %s", have, test.Want)
				}
			}
		})
	}
}
