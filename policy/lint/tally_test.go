package lint

import (
	"slices"
	"testing"
)

func TestLintPodTally(t *testing.T) {
	const head = "apiVersion: curfew.dev/v1alpha1\nkind: PodTally\nmetadata: {name: a, namespace: ci}\nspec: "
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"fits":         {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: 10m}", nil},
		"bad operator": {"{selector: {matchExpressions: [{key: app, operator: Like}]}}", []string{`f.yaml:4 error PodTally ci/a policy-compiles spec.selector: "Like" is not a valid label selector operator`}},
		"fraction":     {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: 1500ms}", []string{`f.yaml:4 error PodTally ci/a policy-compiles spec.ttlAfterCounted: "1500ms" is not a whole number of seconds: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`}},
		"unknown":      {"{selector: {matchLabels: {app: build}}, ttl: 10m}", []string{`f.yaml:4 error PodTally ci/a schema spec.ttl: unknown field "spec.ttl": remove it, or correct its name`}},
		"short":        {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: '5'}", []string{`f.yaml:4 warning PodTally ci/a short-ttl spec.ttlAfterCounted: 5 (5s) is under 60s: a Pod of this tally may be deleted before anyone reads its logs; use 60s or more`}},
	} {
		t.Run(name, func(t *testing.T) {
			if have := lines(lintText(t, head+test.spec+"\n", offline(t))); !slices.Equal(have, test.want) {
				t.Errorf("have %q\nwant %q", have, test.want)
			}
		})
	}
}
