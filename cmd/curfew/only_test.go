package main

import (
	"slices"
	"strings"
	"testing"
)

// What contradicts the namespaced mode is refused at the start, and its triggers are off.
func TestOnlyNamespacesOptions(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*options)
		want   string
	}{
		"Curfew's own": {func(o *options) { o.onlyNamespaces = []string{"curfew-system"} }, "nothing is ever deleted there"},
		"a protected pattern": {func(o *options) { o.onlyNamespaces, o.protect = []string{"openshift-x"}, []string{"openshift-*"} },
			"nothing is ever deleted there"},
		"no namespace name": {func(o *options) { o.onlyNamespaces = []string{"team_a"} }, "--only-namespaces=team_a"},
		"both lists":        {func(o *options) { o.onlyNamespaces, o.namespaces = []string{"a"}, []string{"b"} }, "--namespaces: leave it out"},
		"no trigger left":   {func(o *options) { o.onlyNamespaces, o.enable = []string{"a"}, []string{"cleanup"} }, "name at least one of ttl"},
		"files alone":       {func(o *options) { o.configDir = "/etc" }, "set --only-namespaces, too"},
	} {
		t.Run(name, func(t *testing.T) {
			o := defaultOptions()
			test.change(o)
			if err := o.validate(parts{controller: true}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	for name, test := range map[string]struct {
		change func(*options)
		parts  parts
		want   string
	}{
		"its own CA":        {func(*options) {}, parts{webhook: true}, "--certificates=self-managed"},
		"the HTTP API":      {func(o *options) { o.certificates, o.apiAddr = certManager, ":1" }, parts{webhook: true}, "--api-addr=:1"},
		"secure metrics":    {func(o *options) { o.certificates, o.metricsSecure = certManager, true }, parts{webhook: true}, "--metrics-secure=true: leave it out"},
		"a mounted one":     {func(o *options) { o.certificates = certManager }, parts{webhook: true}, ""},
		"a controller":      {func(*options) {}, parts{controller: true}, ""},
		"in all namespaces": {func(o *options) { o.onlyNamespaces = nil }, parts{webhook: true}, ""},
	} {
		o := defaultOptions()
		o.onlyNamespaces = []string{"a"}
		test.change(o)
		if err := o.validate(test.parts); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	o := defaultOptions()
	o.onlyNamespaces = []string{"a"}
	if err := o.validate(parts{controller: true}); err != nil {
		t.Fatal(err)
	}
	if o.switchOff(); !slices.Equal(o.enable, []string{"ttl", "label", "deadline"}) {
		t.Errorf("triggers %v", o.enable)
	}
	if o = defaultOptions(); o.only() || !o.on("cleanup") {
		t.Error("the mode is on by default")
	}
}
