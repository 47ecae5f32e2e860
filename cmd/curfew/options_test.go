package main

import (
	"io"
	"strings"
	"testing"
)

// A flag that cannot be used is named with its value and the fix before anything starts. With a
// verbosity below 0, or above what a logger's level can hold, the logger would drop the lines about
// deletions.
func TestFlagsThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*options)
		want string
	}{
		"the defaults":        {func(*options) {}, ""},
		"stuck at once":       {func(o *options) { o.stuckAfter = 0 }, "--stuck-after=0s: give 1s or more"},
		"all is logged":       {func(o *options) { o.verbosity = 10 }, ""},
		"nothing is logged":   {func(o *options) { o.verbosity = -1 }, "--verbosity=-1: give 0 to 10"},
		"more than there is":  {func(o *options) { o.verbosity = 200 }, "--verbosity=200: give 0 to 10"},
		"no trigger":          {func(o *options) { o.enable = nil }, "--enable=: name at least one of ttl, label, cleanup, deadline, tally; with --dry-run nothing is deleted either"},
		"patterns":            {func(o *options) { o.protect = []string{"openshift-*", "*-infra"} }, ""},
		"an unknown trigger":  {func(o *options) { o.enable = []string{"ttl", "Label"} }, "--enable=Label: the triggers are ttl, label, cleanup, deadline, tally"},
		"expired, unheard of": {func(o *options) { o.expiredLabels = "never" }, "--expired-labels=never: give deny or warn"},
		"two at once":         {func(o *options) { o.nativeTTL, o.maxDeletionsPerMinute = "maybe", -1 }, "--native-ttl=maybe: give on or off\n--max-deletions-per-minute=-1: give 0 for no bound, or more"},

		"a webhook":         {func(*options) {}, ""},
		"another issuer":    {func(o *options) { o.certificates = "vault" }, "--certificates=vault: give self-managed or cert-manager"},
		"no folder":         {func(o *options) { o.certificates, o.certificateDir = certManager, "" }, "--certificate-dir=: name the folder where the Secret is mounted"},
		"an old TLS":        {func(o *options) { o.tlsMinVersion = "1.1" }, "--tls-min-version=1.1: give 1.2 or 1.3"},
		"names without CAs": {func(o *options) { o.clientNames = []string{"a"} }, "--client-names=[a]: set --client-ca-file, too: without it no certificate is asked for"},
		"two of a webhook":  {func(o *options) { o.caSettle, o.drainDelay = 0, -1 }, "--ca-settle=0s: give 1s to 24h\n--drain-delay=-1ns: give 0s to 5m"},
	} {
		t.Run(name, func(t *testing.T) {
			options, got := defaultOptions(), ""
			c.set(options)
			if err := options.validate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
}

// A start with a flag that was removed fails, and says what takes its place: without that Curfew
// would delete in more namespaces than before.
func TestRemovedFlags(t *testing.T) {
	for args, want := range map[string]string{
		"webhook --only-namespaces=a": `--only-namespaces was removed: give Curfew's service account "delete" by RoleBindings in the namespaces that it may clean up; ` +
			"see docs/install.md#rights-by-namespace",
		"controller --only-namespaces a": "--only-namespaces was removed",
		"all --config-dir=/etc/curfew":   "--config-dir was removed: create the LifecyclePolicies and KindProfiles in the cluster; see docs/install.md#rights-by-namespace",
	} {
		command := root()
		command.SetArgs(strings.Fields(args))
		if err := command.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
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
