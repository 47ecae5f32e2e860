package rules

import "testing"

func TestUnusableDefault(t *testing.T) {
	run(t, unusableDefault, map[string]row{
		"usable":    {object: job().Map(), namespace: annotated("default-ttl", "1d")},
		"own value": {object: job().TTL(60).Map(), namespace: annotated("default-ttl", "soon")},
		"default": {object: job().Map(), namespace: annotated("default-ttl", "soon"),
			want: []string{"warning no default from " + at("default-ttl") + ` of namespace "ci": "soon" is not a duration: ` + durations + ", or never"}},
		"bound": {object: job().Map(), namespace: annotated("default-ttl", "1d", "max-ttl", "?"),
			want: []string{"warning no default from " + at("default-ttl") + ` of namespace "ci": curfew.dev/max-ttl of namespace "ci" cannot be read: "?" is not a duration: ` + durations}},
		"unrelated update": {old: job().Map(), object: job().Label("a", "b").Map(), namespace: annotated("default-ttl", "soon")},
		"owned":            {object: job().ControlledBy("example.com/v1", "Flow", "x").Map(), namespace: annotated("default-ttl", "soon")},
	})
}
