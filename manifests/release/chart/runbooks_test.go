package chart

import (
	"strings"
	"testing"

	"curfew.dev/curfew/manifests/release/chart/charttest"
)

// TestRunbooks: alerts link to the files of their version where an address is given, and to nothing
// without one.
func TestRunbooks(t *testing.T) {
	o := *version
	for base, want := range map[string]string{"": "", "https://git.example.com/curfew/blob/{version}/": "https://git.example.com/curfew/blob/v0.1.0/docs/alerts.md#curfew"} {
		o.Runbooks = base
		files, err := Files(&o)
		must(t, err)
		alerts, _, err := charttest.Render(files, namespace, values{"monitoring": true})
		must(t, err)
		n := strings.Count(alerts, "runbook_url: "+want)
		if total := strings.Count(alerts, "alert: "); total == 0 || base == "" && n > 0 || base != "" && n != total {
			t.Errorf("%q: %d of %d alerts have a link", base, n, total)
		}
	}
}
