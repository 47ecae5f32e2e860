package main

import (
	"io"
	"testing"
	"time"
)

// A flag that cannot be used is named with its value and the fix before anything starts. By a
// verbosity below 0 the logger would drop the lines that tell of deletions; by one that a logger's
// level cannot hold, too.
func TestFlagsThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*options)
		want string
	}{
		"the defaults":        {func(*options) {}, ""},
		"stuck before now":    {func(o *options) { o.stuckAfter = -5 * time.Minute }, "--stuck-after=-5m0s: give 1s or more"},
		"stuck at once":       {func(o *options) { o.stuckAfter = 0 }, "--stuck-after=0s: give 1s or more"},
		"all is logged":       {func(o *options) { o.verbosity = 10 }, ""},
		"nothing is logged":   {func(o *options) { o.verbosity = -1 }, "--verbosity=-1: give 0 to 10"},
		"more than there is":  {func(o *options) { o.verbosity = 200 }, "--verbosity=200: give 0 to 10"},
		"one trigger":         {func(o *options) { o.enable = []string{"label"} }, ""},
		"no trigger":          {func(o *options) { o.enable = nil }, "--enable=: name at least one of ttl, label, cleanup, deadline, tally; with --dry-run nothing is deleted either"},
		"patterns":            {func(o *options) { o.protect = []string{"openshift-*", "*-infra"} }, ""},
		"an unknown trigger":  {func(o *options) { o.enable = []string{"ttl", "Label"} }, "--enable=Label: the triggers are ttl, label, cleanup, deadline, tally"},
		"expired, unheard of": {func(o *options) { o.expiredLabels = "never" }, "--expired-labels=never: give deny or warn"},
		"two at once": {func(o *options) { o.nativeTTL, o.maxDeletionsPerMinute = "maybe", -1 },
			"--native-ttl=maybe: give on or off\n--max-deletions-per-minute=-1: give 0 for no bound, or more"},
	} {
		t.Run(name, func(t *testing.T) {
			options := defaultOptions()
			c.set(options)
			got := ""
			if err := options.validate(parts{controller: true}); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
}

// TestHelmTestFails: the Pod of helm test (manifests/chart/templates/test.yaml) passes its TTL to
// this flag, and fails where Curfew gave it none.
func TestHelmTestFails(t *testing.T) {
	for ttl, fails := range map[string]bool{"": true, "10m": false, "1d": false} {
		command := root()
		command.SetOut(io.Discard)
		command.SetArgs([]string{"webhook", "--drain-delay=" + ttl, "--help"})
		if err := command.Execute(); (err != nil) != fails {
			t.Errorf("%q: error %v", ttl, err)
		}
	}
}
