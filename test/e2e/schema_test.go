package e2e

import (
	"strings"
	"testing"
)

// What the API server and Curfew's webhook say of Curfew's own kinds arrives in words. policy/v1alpha1
// has a test of every rule of the schemas, and webhook of what it refuses itself.

func TestLifecyclePolicySchema(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.refusing("LifecyclePolicy", map[string]string{
		`{match: {}}`:                                               "the policy has no effect: set defaults, bounds, warnBelow or propagationPolicy",
		`{defaults: {ttl: {value: 86400}}}`:                         `: is a number: write it in quotes: "86400"`,
		`{warnBelow: 1m, ttl: 1d}`:                                  `unknown field "spec.ttl"`,
		`{bounds: {minTTL: 2h, maxTTL: 1h}}`:                        `admission webhook "policies.curfew.dev" denied the request: spec.bounds.minTTL: 2h is above maxTTL 1h: lower it, or raise the other`,
		`{defaults: {ttl: {expression: "object.metadata.name +"}}}`: `admission webhook "policies.curfew.dev" denied the request: spec.defaults.ttl.expression: line 1, column `,
	})
	s.expectStderr(s.kubectl("apply", "--dry-run=server", "-f", "../../manifests/samples/10-policy-modes.yaml"))
}

func TestKindProfileSchema(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const kind = `kind: {group: example.com, version: v1, kind: Example, resource: examples}`
	s.refusing("KindProfile", map[string]string{
		`{` + kind + `, fields: {ttl: spec.ttl}}`:                                                              "a TTL field needs state: Curfew must know when an object has finished",
		`{kind: {version: v1, kind: Pod, resource: pods}}`:                                                     "Curfew has code of its own for Jobs and Pods, which no KindProfile replaces",
		`{` + kind + `, state: {finished: "object.status.phase ==", finishTime: "null", outcome: "'Failed'"}}`: `admission webhook "policies.curfew.dev" denied the request: spec.state.finished: line 1, column `,
	})
	// A kind of the core group has no group, and its profile can be changed all the same.
	profile := func(kind, path string) string {
		return "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: " + s.name + "}, spec: {kind: {version: v1, " + kind + "}, podTemplates: [" + path + "]}}"
	}
	s.Cleanup(func() { s.afterwards("delete", "kindprofile", s.name, "--ignore-not-found") })
	s.expectStderr(s.kubectlInput(profile("kind: LimitRange, resource: limitranges", "spec.a"), "apply", "-f", "-"))
	s.expectStderr(s.kubectlInput(profile("kind: LimitRange, resource: limitranges", "spec.b"), "apply", "-f", "-"))
	if out := s.kubectlInput(profile("kind: ResourceQuota, resource: resourcequotas", "spec.b"), "apply", "-f", "-"); !strings.Contains(out.stderr, "group and kind are immutable: create another KindProfile") {
		s.Errorf("another kind: %s%s", out.stdout, out.stderr)
	}
	// The profiles that come with Curfew, applied as a user would apply them.
	s.expectStderr(s.kubectl("apply", "--dry-run=server", "-k", "../../manifests/profiles"))
}

// refusing creates objects by their specs. Each must be refused with its text.
func (s *space) refusing(kind string, specs map[string]string) {
	s.Helper()
	for spec, want := range specs {
		manifest := "{apiVersion: curfew.dev/v1alpha1, kind: " + kind + ", metadata: {name: " + s.name + "}, spec: " + spec + "}"
		if out := s.kubectlInput(manifest, "create", "-f", "-", "--dry-run=server"); !out.failed || !strings.Contains(out.stderr, want) {
			s.Errorf("%s: kubectl said\n%s%s\nwant\n%s", spec, out.stdout, out.stderr, want)
		}
	}
}
