package platform_test

import (
	"testing"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/test/contexts"
)

func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		t.Run(name, func(t *testing.T) {
			facts, object := test.Facts(t, test.Store(t).Snapshot())
			found, err := platform.ContextOf(t.Context(), contexts.Source{Case: test, T: t}, platform.Whole(facts, object))
			must(t, err)
			if have := contexts.Render(&found.Scope, len(found.Failures)); have != test.Want {
				t.Errorf("have %s\nwant %s", have, test.Want)
			}
		})
	}
}
