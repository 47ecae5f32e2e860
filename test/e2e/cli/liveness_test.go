package cli

import (
	"errors"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

// TestControllerThatDoesNotRun: due objects stay while no controller leads. The commands say so,
// whether the controller ended or was killed, until one leads again.
func TestControllerThatDoesNotRun(t *testing.T) {
	w := laid(t)
	w.space(t, "alone", nil)
	w.configMap(t, "alone", "later", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	const none = "no replica of Curfew's controller leads: "
	says := func(text string, code int, want ...string) {
		t.Helper()
		got := typed(t, line{text: "kubectl curfew " + text + " -n alone"})
		for _, part := range want {
			if got.code != code || !strings.Contains(got.stdout+got.stderr, part) {
				t.Errorf("%s: exit status %d, want %d and %q in\n%s%s", text, got.code, code, part, got.stdout, got.stderr)
			}
		}
	}
	says("explain cm/later", 0, "configmap/later in namespace alone expires 2099-01-01")
	for how, end := range map[string]func() error{
		"the last one ended ":      func() error { return stop(suite.controller) },
		" last renewed its Lease ": func() error { return suite.controller.Kill() },
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		explains(t, "cm/later -n alone", "   controller   "+none)
		says("explain cm/later", 0, how, "configmap/later in namespace alone stays, although it is due 2099-01-01 00:00:00 UTC",
			"kubectl describe pods -n curfew-system -l app.kubernetes.io/component=controller")
		says("expiring configmaps", 0, "object   controller\n", how, "Curfew deletes and stops nothing until one does")
		says("expire-now cm/later", 1, "would stay: "+none, how)
		becomes(t, 1, map[string]string{"controller": "failed " + none, "deletions": "unknown before the controller stopped: "})
		if err := errors.Join(leads(t.Context(), ""), startController(t.Context())); err != nil {
			t.Fatal(err)
		}
		says("explain cm/later", 0, "configmap/later in namespace alone expires 2099-01-01")
		says("expiring configmaps", 0, "object   -\n")
	}
	says("expire-now cm/later", 0, "configmap/later expires now")
	w.gone(t, "configmaps", "alone", "later")
	// None runs there.
	const elsewhere = `Curfew does not run in namespace "alone", which has no Lease curfew-controller and no ConfigMap curfew-settings; --curfew-namespace names another`
	w.configMap(t, "alone", "other", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	says("expiring --curfew-namespace alone", 2, elsewhere)
	says("expire-now cm/other --curfew-namespace alone", 2, elsewhere)
	says("explain cm/other --curfew-namespace alone", 0, "note: "+elsewhere, "   controller   "+elsewhere)
}

// TestNothingIsInstalled: the same cluster before Curfew was installed.
func TestNothingIsInstalled(t *testing.T) {
	const why = "Curfew is not installed in this cluster: the API server serves no kind of group curfew.dev"
	for text, want := range bare {
		if got := suite.bare[text]; got.code != want.code || !strings.Contains(got.stdout+got.stderr, want.prefix+why) {
			t.Errorf("%s: exit status %d\n%s%s", text, got.code, got.stdout, got.stderr)
		}
	}
}

// bare are command lines that are run before Curfew is installed, with what comes of them.
var bare = map[string]struct {
	code   int
	prefix string
}{
	"kubectl curfew expiring -A":                                  {2, "error: "},
	"kubectl curfew expire-now serviceaccount/default -n default": {2, "error: "},
	"kubectl curfew keep serviceaccount/default -n default":       {2, "error: "},
	"kubectl curfew explain namespace/default":                    {0, "note: "},
	"kubectl curfew status --no-headers":                          {1, "controller   failed   "},
}
