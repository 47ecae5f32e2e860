package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A flag that cannot be used is named with its value and the fix before anything starts. So is one
// that contradicts the namespaced mode. With a verbosity below 0, or above what a logger's level can
// hold, the logger would drop the lines about deletions.
func TestFlagsThatCannotBeUsed(t *testing.T) {
	controls, serves := parts{controller: true}, parts{webhook: true}
	only := func(namespaces ...string) func(*options) { return func(o *options) { o.onlyNamespaces = namespaces } }
	for name, c := range map[string]struct {
		parts parts
		set   func(*options)
		want  string
	}{
		"the defaults":        {controls, func(*options) {}, ""},
		"stuck at once":       {controls, func(o *options) { o.stuckAfter = 0 }, "--stuck-after=0s: give 1s or more"},
		"all is logged":       {controls, func(o *options) { o.verbosity = 10 }, ""},
		"nothing is logged":   {controls, func(o *options) { o.verbosity = -1 }, "--verbosity=-1: give 0 to 10"},
		"more than there is":  {controls, func(o *options) { o.verbosity = 200 }, "--verbosity=200: give 0 to 10"},
		"no trigger":          {controls, func(o *options) { o.enable = nil }, "--enable=: name at least one of ttl, label, cleanup, deadline, tally; with --dry-run nothing is deleted either"},
		"patterns":            {controls, func(o *options) { o.protect = []string{"openshift-*", "*-infra"} }, ""},
		"an unknown trigger":  {controls, func(o *options) { o.enable = []string{"ttl", "Label"} }, "--enable=Label: the triggers are ttl, label, cleanup, deadline, tally"},
		"expired, unheard of": {controls, func(o *options) { o.expiredLabels = "never" }, "--expired-labels=never: give deny or warn"},
		"two at once":         {controls, func(o *options) { o.nativeTTL, o.maxDeletionsPerMinute = "maybe", -1 }, "--native-ttl=maybe: give on or off\n--max-deletions-per-minute=-1: give 0 for no bound, or more"},

		"a webhook":         {serves, func(*options) {}, ""},
		"another issuer":    {serves, func(o *options) { o.certificates = "vault" }, "--certificates=vault: give self-managed or cert-manager"},
		"no folder":         {serves, func(o *options) { o.certificates, o.certificateDir = certManager, "" }, "--certificate-dir=: name the folder where the Secret is mounted"},
		"an old TLS":        {serves, func(o *options) { o.tlsMinVersion = "1.1" }, "--tls-min-version=1.1: give 1.2 or 1.3"},
		"names without CAs": {serves, func(o *options) { o.clientNames = []string{"a"} }, "--client-names=[a]: set --client-ca-file, too: without it no certificate is asked for"},
		"two of a webhook":  {serves, func(o *options) { o.caSettle, o.drainDelay = 0, -1 }, "--ca-settle=0s: give 1s to 24h\n--drain-delay=-1ns: give 0s to 5m"},

		"only: a namespace":         {controls, only("a"), ""},
		"only: Curfew's own":        {controls, only("curfew-system"), "--only-namespaces=curfew-system: nothing is ever deleted there, see --protect"},
		"only: a protected pattern": {controls, func(o *options) { o.onlyNamespaces, o.protect = []string{"openshift-x"}, []string{"openshift-*"} }, "--only-namespaces=openshift-x: nothing is ever deleted there, see --protect"},
		"only: no namespace name":   {controls, only("team_a"), "--only-namespaces=team_a: " + strings.Join(validation.IsDNS1123Label("team_a"), "")},
		"only: both lists":          {controls, func(o *options) { o.onlyNamespaces, o.namespaces = []string{"a"}, []string{"b"} }, "--namespaces: leave it out, --only-namespaces names all namespaces"},
		"only: no trigger left":     {controls, func(o *options) { o.onlyNamespaces, o.enable = []string{"a"}, []string{"cleanup"} }, "--enable=cleanup: with --only-namespaces name at least one of ttl, label and deadline"},
		"only: files alone":         {controls, func(o *options) { o.configDir = "/etc" }, "--config-dir=/etc: set --only-namespaces, too: otherwise policies and profiles come from the cluster"},
		"only: a CA of its own":     {serves, only("a"), "--certificates=self-managed: with --only-namespaces give cert-manager: Curfew serves the certificate in --certificate-dir, whatever tool issued it"},
		"only: the HTTP API":        {serves, func(o *options) { o.onlyNamespaces, o.certificates, o.apiAddr = []string{"a"}, certManager, ":1" }, "--api-addr=:1: leave it out, the HTTP API reviews tokens, which takes rights in the cluster"},
		"only: secure metrics":      {serves, func(o *options) { o.onlyNamespaces, o.certificates, o.metricsSecure = []string{"a"}, certManager, true }, "--metrics-secure=true: leave it out, it reviews tokens, which takes rights in the cluster"},
		"only: a mounted one":       {serves, func(o *options) { o.onlyNamespaces, o.certificates = []string{"a"}, certManager }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			options, got := defaultOptions(), ""
			c.set(options)
			if err := options.validate(c.parts); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
}

// The namespaced mode is off by default, and has no triggers that need more than its namespaces.
func TestOnlyNamespaces(t *testing.T) {
	o := defaultOptions()
	if o.only() || !o.on("cleanup") {
		t.Error("the mode is on by default")
	}
	o.onlyNamespaces = []string{"a"}
	if o.switchOff(); !slices.Equal(o.enable, []string{"ttl", "label", "deadline"}) {
		t.Errorf("triggers %v", o.enable)
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
