package api

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/test/contexts"
)

// To a caller who may read everything, the HTTP API says what admission would.
func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		t.Run(name, func(t *testing.T) {
			from := readable{contexts.Source{Case: test, T: t}, &world{}, authenticationv1.UserInfo{Username: "ann"}}
			facts, object := test.Facts(t, test.Store(t).Snapshot())
			found, err := platform.ContextOf(t.Context(), from, platform.Whole(facts, object))
			must(t, err)
			if have := contexts.Render(&found.Scope, len(found.Failures)); have != test.Want {
				t.Errorf("have %s\nwant %s", have, test.Want)
			}
		})
	}
}
