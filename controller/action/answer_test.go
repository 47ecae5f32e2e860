package action

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"curfew.dev/curfew/controller/confine"
)

// A request that --only-namespaces refuses was never sent, so no answer to it is missing.
func TestNeverSent(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		outcome Class
		code    int
	}{
		"refused before it was sent": {fmt.Errorf("DELETE /api: %w", confine.ErrOutside), Refused, http.StatusBadRequest},
		"no answer":                  {errors.New("connection reset by peer"), Failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := &url.Error{Op: "Delete", URL: "https://api", Err: c.err} // as of an http.Client
			if out, answered := FailureOf(err); out.Outcome != c.outcome || out.Code != c.code || answered {
				t.Errorf("answer %+v, answered %t; want outcome %v, code %d, not answered", out, answered, c.outcome, c.code)
			}
		})
	}
}
