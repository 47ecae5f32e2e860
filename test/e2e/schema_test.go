package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// What the API server itself and Curfew's webhook say of Curfew's own kinds, as kubectl shows it.
// policy/v1alpha1 has a test of every rule of the schemas; here is that they arrive, in words.

// refusing creates objects. Each must be refused with its text, in the order of kubectl's lines.
func (s *space) refusing(kind string, rows []struct{ spec, want string }) {
	s.Helper()
	var manifests []string
	for i, row := range rows {
		manifests = append(manifests, fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: %s, metadata: {name: %s-%d}, spec: %s}", kind, s.name, i, row.spec))
	}
	out := s.kubectlInput(strings.Join(manifests, "\n---\n"), "create", "-f", "-", "--dry-run=server")
	lines := refusals(out.stderr)
	if !out.failed || len(lines) != len(rows) {
		s.Fatalf("%d of %d were refused: %s%s", len(lines), len(rows), out.stdout, out.stderr)
	}
	for i, row := range rows {
		if !strings.Contains(lines[i], row.want) {
			s.Errorf("%s: kubectl said\n%s\nwant\n%s", row.spec, lines[i], row.want)
		}
	}
}

// shown is what the API server shows of a value that a rule of a schema rejects: the value, and up
// to 1.34 the type that the schema declares.
func (s *space) shown(value, declared string) string {
	s.Helper()
	if s.release() <= 34 {
		return strconv.Quote(declared)
	}
	return value
}

// refusals are the refusals in kubectl's output; one of several lines is about one object.
func refusals(stderr string) []string {
	var out []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "Error from server") || strings.HasPrefix(line, "The ") || strings.HasPrefix(line, "error: ") || len(out) == 0 {
			out = append(out, line)
		} else {
			out[len(out)-1] += line
		}
	}
	return out
}

func TestLifecyclePolicySchema(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.refusing("LifecyclePolicy", []struct{ spec, want string }{
		{`{match: {}}`, "the policy has no effect: set defaults, bounds, warnBelow or propagationPolicy"},
		{`{defaults: {ttl: {value: 1d, expression: "'1d'"}}}`, "set exactly one of value and expression"},
		{`{defaults: {ttl: {value: soon}}}`, "spec.defaults.ttl.value in body should match"},
		{`{defaults: {deadline: {value: never}}}`, "spec.defaults.deadline.value in body should match"},
		{`{defaults: {ttlLabel: {value: 1y}}}`, "spec.defaults.ttlLabel.value in body should match"},
		{`{defaults: {ttl: {value: 86400}}}`, "spec.defaults.ttl.value: Invalid value: " + s.shown("86400", "") + `: is a number: write it in quotes: "86400"`},
		{`{bounds: {maxTTL: 3600}}`, "spec.bounds.maxTTL: Invalid value: " + s.shown("3600", "") + `: is a number: write it in quotes: "3600"`},
		{`{bounds: {minTTL: "-1"}}`, "spec.bounds.minTTL in body should match"},
		{`{bounds: {latestDate: "2026-13-01"}}`, "spec.bounds.latestDate in body must be of type date"},
		{`{warnBelow: 1m, mode: Shrug}`, `spec.mode: Unsupported value: "Shrug": supported values: "Enforce", "Warn", "DryRun"`},
		{`{warnBelow: 1m, priority: 1000001}`, "spec.priority in body should be less than or equal to 1000000"},
		{`{warnBelow: 1m, ttl: 1d}`, `unknown field "spec.ttl"`},
		// The schema lets these pass, and the webhook does not: it compiles them, and points at the
		// place.
		{`{bounds: {minTTL: 2h, maxTTL: 1h}}`, `admission webhook "policies.curfew.dev" denied the request: spec.bounds.minTTL: 2h is above maxTTL 1h: lower it, or raise the other`},
		{`{defaults: {deadline: {value: "0"}}}`, `admission webhook "policies.curfew.dev" denied the request: spec.defaults.deadline.value: `},
		{`{defaults: {ttl: {expression: "object.metadata.name +"}}}`, `admission webhook "policies.curfew.dev" denied the request: spec.defaults.ttl.expression: line 1, column `},
		{`{defaults: {ttl: {expression: "object.metadata.name == 'x'"}}}`, `spec.defaults.ttl.expression: line 1, column 1: the result is of type bool, and must be `},
		{`{warnBelow: 1m, match: {matchConditions: [{name: a, expression: "objekt.metadata.name == 'x'"}]}}`,
			`spec.match.matchConditions[0].expression: line 1, column 1: undeclared reference to 'objekt'`},
	})
	out := s.kubectlInput(`{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: fine}, spec: {
		match: {kinds: [{group: "*", kind: Job}], namespaceSelector: {matchLabels: {a: b}}, objectSelector: {matchLabels: {a: b}}, matchConditions: [{name: a, expression: "object.metadata.name.startsWith('x')"}]},
		defaults: {ttl: {expression: "runtime == null ? dyn('1d') : null"}, ttlSucceeded: {value: "90"}, ttlFailed: {value: never}, deadline: {value: 12h}, ttlLabel: {value: 2099-12-24T003000Z}},
		bounds: {minTTL: "60", maxTTL: 2w, minTTLLabel: 1m, maxTTLLabel: 90d, minDeadline: 1m, maxDeadline: 30d, latestDate: "2099-12-31"}, warnBelow: "90", mode: Warn, priority: -5, backfill: true}}`,
		"create", "-f", "-", "--dry-run=server")
	s.expectStderr(out)
}

// TestPolicyModesSample: the sample can be applied as it is.
func TestPolicyModesSample(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectStderr(s.kubectl("apply", "--dry-run=server", "-f", "../../manifests/samples/10-policy-modes.yaml"))
}

func TestKindProfileSchema(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const kind, state = `kind: {group: example.com, version: v1, kind: Example, resource: examples}`, `state: {finished: "true", finishTime: "null", outcome: "'Failed'"}`
	s.refusing("KindProfile", []struct{ spec, want string }{
		{`{` + state + `}`, "spec.kind: Required value"},
		{`{` + kind + `, fields: {ttl: spec.ttl}}`, "a TTL field needs state: Curfew must know when an object has finished"},
		{`{` + kind + `, deadline: {enforcement: [{by: Controller}]}}`, "a deadline needs state: Curfew must know whether an object has started and finished"},
		{`{` + kind + `, runtime: {reference: {name: spec.ref, defaultKind: T}, kinds: [{version: v1, kind: T, resource: ts}]}}`,
			"a runtime needs state: its TTL counts from the finish time of the objects that use it"},
		{`{` + kind + `, ` + state + `, runtime: {reference: {name: spec.ref}, kinds: [{version: v1, kind: T, resource: ts}]}}`,
			"set kind, defaultKind or clusterScope: one name can belong to several kinds"},
		{`{` + kind + `, ` + state + `, deadline: {enforcement: [{by: Curfew}]}}`, "stop is required where Curfew enforces the deadline"},
		{`{` + kind + `, ` + state + `, deadline: {enforcement: [{by: Curfew, stop: [{action: Delete}]}]}}`, "Delete needs child: a deadline deletes only what the object runs, never the object"},
		{`{` + kind + `, podTemplates: ["spec.jobs[0].template"]}`, "spec.podTemplates[0] in body should match"},
		{`{kind: {group: batch, version: v1, kind: Job, resource: jobs}, ` + state + `}`, "Curfew has code of its own for Jobs and Pods, which no KindProfile replaces"},
		{`{kind: {version: v1, kind: Pod, resource: pods}, ` + state + `}`, "Curfew has code of its own for Jobs and Pods, which no KindProfile replaces"},
		{`{` + kind + `, propagationPolicy: Sideways}`, `spec.propagationPolicy: Unsupported value: "Sideways"`},
		{`{` + kind + `, state: {finished: "object.status.phase ==", finishTime: "null", outcome: "'Failed'"}}`,
			`admission webhook "policies.curfew.dev" denied the request: spec.state.finished: line 1, column `},
		{`{` + kind + `, state: {finished: "'yes'", finishTime: "null", outcome: "'Failed'"}}`, `spec.state.finished: line 1, column 1: the result is of type string, and must be `},
		{`{` + kind + `, state: {finished: "true", finishTime: "now", outcome: "'Failed'"}}`, `spec.state.finishTime: line 1, column 1: undeclared reference to 'now'`},
	})
	// A kind of the core group has no group, and its profile can be changed all the same.
	profile := func(kind, path string) string {
		return "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: " + s.name + "}, spec: {kind: {version: v1, " + kind + "}, podTemplates: [" + path + "]}}"
	}
	s.Cleanup(func() { s.kubectl("delete", "kindprofile", s.name, "--ignore-not-found") })
	s.expectStderr(s.kubectlInput(profile("kind: LimitRange, resource: limitranges", "spec.a"), "apply", "-f", "-"))
	s.expectStderr(s.kubectlInput(profile("kind: LimitRange, resource: limitranges", "spec.b"), "apply", "-f", "-"))
	if out := s.kubectlInput(profile("kind: ResourceQuota, resource: resourcequotas", "spec.b"), "apply", "-f", "-"); !strings.Contains(out.stderr, "group and kind are immutable: create another KindProfile") {
		s.Errorf("another kind: %s%s", out.stdout, out.stderr)
	}
	// The profiles that come with Curfew, applied as a user would apply them.
	s.expectStderr(s.kubectl("apply", "--dry-run=server", "-k", "../../manifests/profiles"))
}
