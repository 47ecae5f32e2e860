package main

import (
	"io"
	"strings"
	"testing"

	"curfew.dev/curfew/controller/settings"
)

// TestSettingsAreWhatFlagsSay: a value may be given behind its flag or as an argument of its own,
// and a flag more than once.
func TestSettingsAreWhatFlagsSay(t *testing.T) {
	const usual = "kube-system,kube-public,kube-node-lease"
	for args, want := range map[string]string{
		"controller": "false false " + usual + " curfew-system",
		"controller --protect=prod,infra --dry-run":                               "true false prod,infra curfew-system",
		"controller --protect prod --protect infra":                               "false false prod,infra curfew-system",
		"controller --namespace other --kyverno-label":                            "false true " + usual + " other",
		"controller --dry-run --protect prod --stuck-after 5m --namespaces a":     "true false prod curfew-system",
		"controller --stuck-after 5m --dry-run=false -v 2 --kubeconfig /etc/mine": "false false " + usual + " curfew-system",
		"controller --enable=ttl,deadline":                                        "false false " + usual + " curfew-system",
		"controller --protect=":                                                   "false false  curfew-system",
		"all --dry-run --protect prod --native-ttl=off":                           "true false prod curfew-system",
	} {
		command, rest, err := root().Find(strings.Fields(args))
		must(t, err)
		command.SetOut(io.Discard)
		must(t, command.ParseFlags(rest))
		have := settings.Of(command.Flags())
		if text := strings.Join([]string{have["dry-run"], have["kyverno-label"], have["protect"], have["namespace"]}, " "); text != want {
			t.Errorf("%s: %s, want %s", args, text, want)
		}
		if _, ok := have["kubeconfig"]; ok {
			t.Errorf("%s: publishes a path of this machine", args)
		}
		want := "ttl,label,cleanup,deadline,tally"
		if _, only, set := strings.Cut(args, "--enable="); set {
			want = only
		}
		if have["enable"] != want {
			t.Errorf("%s: enable %q", args, have["enable"])
		}
		if native, off := have["native-ttl"], strings.Contains(args, "off"); native == "off" != off {
			t.Errorf("%s: native-ttl %q", args, native)
		}
	}
}
