package webhookconfig

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"curfew.dev/curfew/controller/discovery"
)

// What the controller may delete is waited for, so that a start writes once, but not for ever.
func TestKeeperWaitsForWhatMayBeDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		known  time.Duration // after the start; 0: never
		writes []string      // so long after the start
		lists  bool
	}{
		"known soon":  {known: 3 * time.Second, writes: []string{"create"}, lists: true},
		"known late":  {known: time.Minute, writes: []string{"create", "update"}, lists: true},
		"never known": {writes: []string{"create"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := beginWith(t, nil, func(o *Options) {
					o.Input.Controller = "curfew-controller"
					o.Places = func() ([]discovery.Place, bool) {
						if test.known == 0 || time.Since(began) < test.known {
							return nil, false
						}
						return []discovery.Place{{Kind: discovery.Kind{Resource: "configmaps"}, Namespaces: []string{""}}}, true
					}
				})
				s.validating.set(t, staticValidating())
				after(2 * time.Second)
				s.validating.expect(t, "before it is known")
				after(10 * time.Second)
				s.validating.expect(t, "later", "create")
				after(time.Minute)
				s.Again()
				after(2 * time.Second)
				s.validating.expect(t, "in the end", test.writes[1:]...)
				written := s.validating.get(t)
				if written == nil {
					t.Fatal("nothing was written")
				}
				text := fmt.Sprint(written.Webhooks)
				if strings.Contains(text, `"configmaps."`) != test.lists {
					t.Errorf("the resource is listed: %t, want %t", !test.lists, test.lists)
				}
			})
		})
	}
}
