package deletion_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
)

// TestRules (S12): a deletion and a stop need rules that were confirmed less than 15 s before they
// are sent. Reads do not.
func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		ago    time.Duration // when the rules were confirmed, 0: no rules permit it
		method string
		held   bool
	}{
		"just confirmed":            {time.Millisecond, http.MethodDelete, false},
		"13 s ago":                  {13 * time.Second, http.MethodDelete, false},
		"15 s ago":                  {15 * time.Second, http.MethodDelete, true},
		"a stop, 15 s ago":          {15 * time.Second, http.MethodPatch, true},
		"a read, 15 s ago":          {15 * time.Second, http.MethodGet, false},
		"no rules: a Pod's release": {0, http.MethodPatch, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI()
			a.jobs["one"] = true
			gate, stop := a.gate(t)
			defer stop()
			pass(time.Minute)
			ctx, mark := deletion.WithMark(t.Context(), policy.TriggerTTL, "ci")
			if test.ago > 0 {
				mark.Confirmed(time.Now().Add(-test.ago))
			}
			err := send(ctx, a.config(gate), test.method, "one")
			if held := errors.Is(err, deletion.ErrHeld); held != test.held || err != nil && !held || mark.Held() != test.held {
				t.Errorf("error %v, mark held %t; want held: %t", err, mark.Held(), test.held)
			}
			if sent := len(a.writes) > 0; sent != (!test.held && test.method != http.MethodGet) {
				t.Errorf("sent: %t", sent)
			}
		})
	}
}
