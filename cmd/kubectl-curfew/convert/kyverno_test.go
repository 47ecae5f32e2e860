package convert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

const withConditions = `
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: p}
spec:
  schedule: "@daily"
  match: {any: [{resources: {kinds: [Pod]}}]}
  conditions: %s
`

// Each condition matches the same objects as in Kyverno. If types do not match, Kyverno treats a
// condition as false, and so the object is kept.
func TestConditions(t *testing.T) {
	for condition, objects := range map[string]struct{ delete, keep []string }{
		`{key: "{{ target.status.phase }}", operator: Equals, value: Failed}`: {
			[]string{"status: {phase: Failed}"}, []string{"status: {phase: Running}", "status: {}", "{}", "status: {phase: 1}"}},
		`{key: "{{ target.status.phase }}", operator: NotEquals, value: Running}`: {
			[]string{"status: {phase: Failed}"}, []string{"status: {phase: Running}", "status: {}", "status: {phase: 1}", "status: {phase: [a]}"}},
		`{key: "{{ target.status.phase }}", operator: Equals, value: "Fail*"}`: {
			[]string{"status: {phase: Failed}"}, []string{"status: {phase: aFail}", "status: {phase: 3}"}},
		`{key: "{{ target.status.phase }}", operator: NotEquals, value: "Run*"}`: {
			[]string{"status: {phase: Failed}"}, []string{"status: {phase: Running}", `status: {phase: "Run\nning"}`, "status: {phase: 3}", "{}"}},
		`{key: "{{ target.spec.replicas }}", operator: Equals, value: 0}`: {
			[]string{"spec: {replicas: 0}"}, []string{"spec: {replicas: 1}", "spec: {}", `spec: {replicas: "0"}`}},
		`{key: "{{ target.spec.replicas }}", operator: GreaterThan, value: "0"}`: {
			[]string{"spec: {replicas: 1}"}, []string{"spec: {replicas: 0}", "spec: {}", `spec: {replicas: "1"}`}},
		`{key: "{{ target.spec.replicas }}", operator: NotEquals, value: 0}`: {
			[]string{"spec: {replicas: 1}"}, []string{"spec: {replicas: 0}", "spec: {}", `spec: {replicas: "1"}`, "spec: {replicas: 1.5}"}},
		`{key: "{{ target.spec.suspend }}", operator: NotEquals, value: true}`: {
			[]string{"spec: {suspend: false}"}, []string{"spec: {suspend: true}", "spec: {}", `spec: {suspend: "false"}`}},
		`{key: "{{ target.spec.suspend }}", operator: NotEquals, value: "true"}`: {
			[]string{`spec: {suspend: "no"}`}, []string{"spec: {suspend: false}", "spec: {suspend: true}"}},
		`{key: "{{ target.spec.replicas }}", operator: LessThan, value: 2}`: {
			[]string{"spec: {replicas: 1}"}, []string{"spec: {replicas: 2}", "{}", `spec: {replicas: "1"}`}},
		`{key: "{{ target.status.succeeded || ` + "`0`" + ` }}", operator: GreaterThan, value: "0"}`: {
			[]string{"status: {succeeded: 1}"}, []string{"status: {succeeded: 0}", "{}"}},
		`{key: "{{ target.metadata.ownerReferences[] || ` + "`[]`" + ` }}", operator: Equals, value: []}`: {
			[]string{"{}", "metadata: {ownerReferences: []}"}, []string{"metadata: {ownerReferences: [{kind: Job}]}"}},
		`{key: "{{ length(target.spec.containers) }}", operator: GreaterThanOrEquals, value: 2}`: {
			[]string{"spec: {containers: [1, 2]}"}, []string{"spec: {containers: [1]}", "{}"}},
		`{key: "{{ target.metadata.labels.\"app.io/tier\" || 'none' }}", operator: NotEquals, value: prod}`: {
			[]string{"{}", `metadata: {labels: {app.io/tier: dev}}`, `metadata: {labels: {app.io/tier: ""}}`}, []string{`metadata: {labels: {app.io/tier: prod}}`}},
		`{key: "{{ target.metadata.labels.tier || 'none' }}", operator: Equals, value: ""}`: {
			nil, []string{"{}", `metadata: {labels: {tier: ""}}`}},
		// Kyverno compares quantities and durations by their value, and reads a key as a pattern.
		`{key: "{{ target.metadata.labels.tier }}", operator: NotEquals, value: prod}`: {
			[]string{"metadata: {labels: {tier: dev}}"}, []string{"metadata: {labels: {tier: '12'}}", "metadata: {labels: {tier: 1h}}", "{}"}},
		`{key: "{{ target.metadata.annotations.host }}", operator: AnyNotIn, value: [a.example.com]}`: {
			[]string{"metadata: {annotations: {host: b.example.com}}"}, []string{"metadata: {annotations: {host: '*.example.com'}}"}},
		// || replaces false, and an empty text.
		"{key: \"{{ target.spec.suspend || `true` }}\", operator: Equals, value: false}": {nil, []string{"spec: {suspend: false}", "{}"}},
		`{key: "{{ target.metadata.labels.tier }}", operator: AnyIn, value: [dev, test]}`: {
			[]string{"metadata: {labels: {tier: dev}}", "metadata: {labels: {tier: test}}"}, []string{"metadata: {labels: {tier: prod}}", "{}"}},
		`{key: "{{ target.metadata.labels.tier }}", operator: AllNotIn, value: [dev]}`: {
			[]string{"metadata: {labels: {tier: prod}}"}, []string{"metadata: {labels: {tier: dev}}", "{}"}},
		`{key: "{{ target.spec.zones }}", operator: NotIn, value: [a]}`: {
			[]string{"spec: {zones: b}"}, []string{"spec: {zones: a}", "spec: {zones: [a]}", "spec: {zones: [b]}"}},
		`{key: "{{ time_since('', '{{ target.metadata.creationTimestamp }}', '') }}", operator: GreaterThan, value: 24h}`: {
			[]string{"{}"}, []string{"metadata: {creationTimestamp: '2026-11-22T00:00:00Z'}", "metadata: {creationTimestamp: '2026-11-21T12:00:00Z'}"}},
		`{key: "{{ time_diff('{{target.metadata.creationTimestamp}}','{{ time_now_utc() }}') }}", operator: DurationGreaterThan, value: 3600}`: {
			[]string{"{}"}, []string{"metadata: {creationTimestamp: '2026-11-22T11:30:00Z'}"}},
		`{key: "{{ time_after('{{ time_now_utc() }}', '{{ target.metadata.annotations.until }}') }}", operator: Equals, value: true}`: {
			[]string{"metadata: {annotations: {until: '2026-11-22T11:30:00Z'}}"}, []string{"metadata: {annotations: {until: '2026-11-22T12:30:00Z'}}", "{}"}},
		`{key: "{{ time_before(time_add(target.status.completionTime, '48h'), time_now()) }}", operator: NotEquals, value: false}`: {
			[]string{"status: {completionTime: '2026-11-20T11:59:59Z'}"}, []string{"status: {completionTime: '2026-11-20T12:00:01Z'}", "{}"}},
		`{key: "{{ regex_match('^pr-[0-9]+$', '{{target.metadata.name}}') }}", operator: Equals, value: true}`: {
			[]string{"metadata: {name: pr-12}"}, []string{"metadata: {name: pr-x}"}},
		`{key: "{{ !(target.metadata.labels.keep == 'yes' && target.metadata.namespace == 'prod') }}", operator: Equals, value: true}`: {
			[]string{"metadata: {labels: {keep: 'no'}}", "metadata: {labels: {keep: 'yes'}}"}, []string{"{}", "metadata: {labels: {keep: 'yes'}, namespace: prod}"}},
		`{key: "{{ starts_with(target.metadata.name, 'pr-') && !(target.metadata.labels.keep == 'yes') }}", operator: Equals, value: true}`: {
			[]string{"metadata: {name: pr-1, labels: {keep: 'no'}}"}, []string{"metadata: {name: pr-1, labels: {keep: 'yes'}}", "metadata: {name: pr-1}", "metadata: {name: x, labels: {keep: 'no'}}"}},
	} {
		t.Run(condition, func(t *testing.T) {
			converted := single(t, fmt.Sprintf(withConditions, "{all: ["+condition+"]}"))
			compiled := usable(t, converted)
			if converted.Spec.Suspend {
				t.Fatalf("not converted: %v", converted.Findings)
			}
			expectDeletes(t, compiled, split(objects.delete, objects.keep))
		})
	}
}

// Kyverno keeps the object at the first condition of any that fails.
func TestAnyKeepsAtAnError(t *testing.T) {
	converted := single(t, fmt.Sprintf(withConditions, `{any: [{key: "{{ target.metadata.labels.env }}", operator: Equals, value: dev},
		{key: "{{ target.metadata.name }}", operator: Equals, value: "tmp-*"}]}`))
	expectDeletes(t, usable(t, converted), map[string]bool{
		"metadata: {name: tmp-1}": false, "metadata: {name: tmp-1, labels: {env: prod}}": true,
		"metadata: {name: a, labels: {env: dev}}": true, "metadata: {name: a, labels: {env: prod}}": false})
}

// A condition that cannot be converted suspends the policy, which deletes nothing even if it is
// resumed.
func TestConditionsThatAreNotConverted(t *testing.T) {
	for condition, reason := range map[string]string{
		`{key: "{{ limit }}", operator: Equals, value: a}`:                                                                `variable "limit" is not supported: only target is`,
		`{key: "{{ request.object.metadata.name }}", operator: Equals, value: a}`:                                         `variable "request" is not supported: only target is`,
		`{key: "a-{{ target.metadata.name }}", operator: Equals, value: a}`:                                               "the key is not one variable in braces",
		`{key: "{{ target.a }}-{{ target.b }}", operator: Equals, value: a}`:                                              `"}}-{{ target.b" is not supported`,
		`{key: "{{ target.status.conditions[?type=='Done'] }}", operator: Equals, value: []}`:                             "[? is not supported",
		`{key: "{{ target.a | length(@) }}", operator: Equals, value: 1}`:                                                 `"|" is not supported`,
		`{key: "{{ items(target.a, 'k', 'v') }}", operator: Equals, value: 1}`:                                            "function items is not supported",
		`{key: "{{ target.a }}", operator: Equals, value: {a: b}}`:                                                        "an object is not supported as a value",
		`{key: "{{ target.a }}", operator: Equals}`:                                                                       "a value of null is not supported",
		`{key: "{{ target.a }}", operator: NotEquals, value: 1Gi}`:                                                        `"1Gi" is not a text that begins with a letter`,
		`{key: "{{ target.a }}", operator: NotEquals, value: "{{ target.b }}"}`:                                           "a variable as value is not supported",
		`{key: "{{ target.a }}", operator: NotEquals, value: ["{{ target.b }}"]}`:                                         "a variable as value is not supported",
		`{key: "{{ target.a }}", operator: AnyIn, value: ["1"]}`:                                                          "operator AnyIn is supported with a list of texts only",
		`{key: "{{ target.a }}", operator: Equals, value: "12*"}`:                                                         `"12*" may match a number, and Kyverno compares numbers in another way: begin it with a letter`,
		`{key: "{{ target.a }}", operator: Equals, value: "*"}`:                                                           `"*" may match a number, and Kyverno compares numbers in another way: begin it with a letter`,
		`{key: "{{ target.a }}", operator: Equals, value: "1"}`:                                                           `"1" may be a text or a number: write a number without quotes`,
		`{key: "{{ target.a }}", operator: In, value: ["nginx:*"]}`:                                                       "wildcards in a list are not supported",
		`{key: "{{ target.a[].b }}", operator: In, value: [a]}`:                                                           "a path after [] or [*] is not supported",
		`{key: "{{ target.a }}", operator: LessThan, value: 24h}`:                                                         `"24h" is not a number`,
		`{key: "{{ target.a }}", operator: DurationLessThan, value: 24h}`:                                                 "operator DurationLessThan is supported for time_since and time_diff only",
		`{key: "{{ time_since('', target.a, '') }}", operator: GreaterThan, value: "0"}`:                                  `"0" is not a duration such as 24h`,
		`{key: "{{ time_now() }}", operator: GreaterThan, value: 1}`:                                                      "now is not a number",
		`{key: "{{ target.a < target.b }}", operator: Equals, value: true}`:                                               "< is supported with a number only",
		`{key: "{{ !(target.a) }}", operator: Equals, value: true}`:                                                       "object.a is not true or false",
		`{key: "{{ target.a }}", operator: GreaterThan, value: 10Mi}`:                                                     `"10Mi" is not a number`,
		`{key: "{{ target.a }}", operator: AnyIn, value: 1-10}`:                                                           "operator AnyIn is supported with a list of values only",
		`{key: "{{ target.a }}", operator: Sounds, value: x}`:                                                             `operator "Sounds" is not supported`,
		`{key: "{{ time_since('', '{{ target.metadata.creationTimestamp }}', '') }}", operator: GreaterThan, value: 30d}`: `"30d" is not a duration such as 24h`,
		`{key: "{{ time_since('2006', target.a, '') }}", operator: GreaterThan, value: 1h}`:                               "time_since is supported without a layout only: time_since('', START, '')",
		`{key: "{{ ` + strings.Repeat("(", 200) + `a", operator: Equals, value: 1}`:                                       "the key is not one variable in braces",
		`{key: "{{ ` + strings.Repeat("(", 200) + `a }}", operator: Equals, value: 1}`:                                    "the expression ends too early",
		`{key: "{{ ` + strings.Repeat("(", 5000) + `a }}", operator: Equals, value: 1}`:                                   "is longer than 4096 bytes",
		`{key: "{{ regex_match('a\\\\b', target.a) }}", operator: Equals, value: true}`:                                   `\\ is not supported`,
		`{key: "{{ !target.spec.keep }}", operator: Equals, value: true}`:                                                 "a path after ! is not supported",
		`{key: "{{ (target.a[]).b }}", operator: Equals, value: x}`:                                                       "a path after [] or [*] is not supported",
		`{key: "{{ target.a[-1] }}", operator: Equals, value: x}`:                                                         "[-1] is not supported",
		`{key: "{{ target.length(@) }}", operator: Equals, value: 1}`:                                                     "a function after a dot is not supported",
		`{key: "{{ target.{a: b} }}", operator: Equals, value: 1}`:                                                        `"{" is not supported`,
	} {
		t.Run(condition, func(t *testing.T) {
			for _, list := range []string{"all", "any"} {
				converted := single(t, fmt.Sprintf(withConditions, "{"+list+": ["+condition+"]}"))
				compiled := usable(t, converted)
				if !converted.Spec.Suspend || deletes(t, compiled, "{a: a}") {
					t.Errorf("%s: it may delete: %v", list, converted.Spec.Conditions)
				}
				finding := converted.Findings[0]
				if !finding.Lost || finding.Field != "spec.conditions."+list+"[0]" || !strings.HasSuffix(finding.Reason, ": "+reason) {
					t.Errorf("%v; want %s", finding, reason)
				}
			}
		})
	}
}

// No part of a match is dropped silently: fewer restrictions would delete more.
func TestMatchesThatAreNotConverted(t *testing.T) {
	const several = "is converted with a single filter, and without any beside it: write one filter"
	const form = "is converted as Kind or group/version/Kind only, with the kind's own case, without a wildcard or subresource"
	for match, reason := range map[string]string{
		`{any: [{resources: {kinds: [Pod], selector: {matchLabels: {"a*": x}}}}]}`:          "wildcards in the keys of labels are not supported",
		`{any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {x: "a*"}}}}]}`: "wildcards in the labels of namespaces are not supported",
		`{any: [{resources: {kinds: [Pod], surprise: 1}}]}`:                                 `unknown field "spec.match.any[0].resources.surprise"`,
		`{any: [{resources: {kinds: [Pod]}, subjects: [{kind: User, name: x}]}]}`:           `unknown field "spec.match.any[0].subjects"`,
		`{any: [{resources: {kinds: [Pod]}}], all: [{resources: {names: [x]}}]}`:            several,
		`{all: [{resources: {kinds: [Pod]}}, {resources: {names: [x]}}]}`:                   several,
		`{any: [{resources: {kinds: [Pod, Widget]}}]}`:                                      `"Widget" is not a kind of Kubernetes: write it as group/version/Kind`,
		`{any: [{resources: {kinds: [Pod, Pod/status]}}]}`:                                  `"Pod/status" ` + form,
		`{any: [{resources: {kinds: ["P*", Pod]}}]}`:                                        `"P*" ` + form,
		`{any: [{resources: {kinds: []}}]}`:                                                 "is empty: name the kinds",
	} {
		result := convert.Source("", []byte(fmt.Sprintf(withMatch, "ClusterCleanupPolicy", match, "null")), options)
		found := false
		for _, finding := range result.Findings {
			found = found || finding.Lost && finding.Reason == reason
		}
		if !found {
			t.Errorf("%s: no finding names it: %v", match, result.Findings)
		}
		for i := range result.Policies {
			usable(t, &result.Policies[i])
			if !result.Policies[i].Spec.Suspend {
				t.Errorf("%s is not suspended", match)
			}
		}
	}
}

// Kyverno's functions become Curfew's. Text that only looks like them stays.
func TestDeletingPolicyExpressions(t *testing.T) {
	for from, want := range map[string]string{
		`now() - object.metadata.creationTimestamp > duration("72h")`:     `now - timestamp(object.metadata.creationTimestamp) > duration("72h")`,
		`time . now ( ) > timestamp( object.metadata.creationTimestamp )`: `now > timestamp( object.metadata.creationTimestamp )`,
		`has(object.metadata.creationTimestamp)`:                          `has(object.metadata.creationTimestamp)`,
		`(object.metadata.creationTimestamp < now())`:                     `(timestamp(object.metadata.creationTimestamp) < now)`,
		`object.metadata.name == "now()" // time.now()`:                   `object.metadata.name == "now()" // time.now()`,
		`object.metadata.name == 'it\'s now()'`:                           `object.metadata.name == 'it\'s now()'`,
		`object.metadata.name`:                                            "object.metadata.name",
	} {
		converted := single(t, fmt.Sprintf(`{"apiVersion": "policies.kyverno.io/v1", "kind": "DeletingPolicy", "metadata": {"name": "p"}, "spec": {
			"schedule": "@daily", "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]},
			"conditions": [{"name": "c", "expression": %q}]}}`, from))
		usable(t, converted)
		if have := string(converted.Spec.Conditions[0].Expression); have != want {
			t.Errorf("%s becomes %s; want %s", from, have, want)
		}
	}
}

func TestSchedules(t *testing.T) {
	for from, want := range map[string]string{
		"* * * * *": "*/5 * * * *", "*/2 3 * * 1": "*/5 3 * * 1", "0,1 * * * *": "@daily", "@every 1h": "@daily",
		"0 0 31 2 *": "@daily", "0 0 * * 7": "@daily", "*/5 * * * *": "*/5 * * * *", "@weekly": "@weekly",
	} {
		converted := single(t, strings.Replace(fmt.Sprintf(withConditions, "null"), "@daily", from, 1))
		usable(t, converted)
		spec := converted.Spec
		if spec.Schedule != want || spec.Suspend != (want == "@daily") {
			t.Errorf("schedule %s becomes %s, want %s; suspended: %t, want %t", from, spec.Schedule, want, spec.Suspend, want == "@daily")
		}
	}
}

// Conditions beyond the limit of a policy are joined. A policy that the schema rejects is not
// written.
func TestLimitsOfTheSchema(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf(`{key: "{{ target.a%d }}", operator: Equals, value: x}`, i))
	}
	converted := single(t, fmt.Sprintf(withConditions, "{all: ["+strings.Join(many, ", ")+"]}"))
	compiled, object := usable(t, converted), "kind: Pod\n"
	for i := range 20 {
		if deletes(t, compiled, object) {
			t.Errorf("deleted with %d conditions of 20", i)
		}
		object += fmt.Sprintf("a%d: x\n", i)
	}
	if !deletes(t, compiled, object) {
		t.Error("kept with all of them")
	}
	var names []string
	for i := range 65 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	result := convert.Source("", []byte(fmt.Sprintf(withMatch, "ClusterCleanupPolicy", "{any: [{resources: {kinds: [Pod], names: ["+strings.Join(names, ", ")+"]}}]}", "null")), options)
	last := result.Findings[len(result.Findings)-1]
	if len(result.Policies) != 0 || !last.Lost || !strings.HasPrefix(last.Reason, "is not written: spec.matchConstraints.resourceRules[0].resourceNames: ") {
		t.Errorf("%d policies, %v", len(result.Policies), last)
	}
}

const deletingPolicy = `
apiVersion: policies.kyverno.io/v1
kind: DeletingPolicy
metadata: {name: p}
spec:
  schedule: "@daily"
  matchConstraints: {resourceRules: [%s]}
`

// A PolicyException suspends the policies that it names, wherever it stands.
func TestPolicyException(t *testing.T) {
	const exception = `
---
apiVersion: %s
kind: PolicyException
metadata: {name: keep-prod, namespace: kyverno}
spec: {policyRefs: [{name: %s, kind: DeletingPolicy}], matchConditions: [{name: prod, expression: "object.metadata.namespace == 'prod'"}]}
`
	for document, want := range map[string]bool{
		fmt.Sprintf(exception, "policies.kyverno.io/v1", "p"):                                       true,
		fmt.Sprintf(exception, "policies.kyverno.io/v1", "other"):                                   false,
		fmt.Sprintf(exception, "kyverno.io/v2", "p"):                                                false,
		"\n---\n{apiVersion: policies.kyverno.io/v1, kind: PolicyException, spec: {policyRefs: x}}": true,
	} {
		converted := single(t, fmt.Sprintf(deletingPolicy, `{apiGroups: [""], apiVersions: [v1], resources: [pods]}`)+document)
		if converted.Spec.Suspend != want || deletes(t, usable(t, converted), "kind: Pod") == want {
			t.Errorf("%s: suspended is %t, want %t: %v", document, converted.Spec.Suspend, want, converted.Findings)
		}
	}
}

// Kyverno lists the very group, version and resource of a rule, and compares names exactly.
func TestRulesOfDeletingPolicies(t *testing.T) {
	for rule, want := range map[string]string{
		`{apiGroups: [""], apiVersions: [v1], resources: [pods], resourceNames: ["tmp-*"]}`: "has a wildcard, by which Kyverno deletes nothing",
		`{apiGroups: [""], apiVersions: [v1], resources: ["*"]}`:                            "has a wildcard, by which Kyverno deletes nothing",
		`{apiGroups: ["*"], apiVersions: [v1], resources: [deployments]}`:                   "has a wildcard, by which Kyverno deletes nothing",
		`{apiGroups: [apps], apiVersions: ["*"], resources: [deployments]}`:                 "has a wildcard, by which Kyverno deletes nothing",
		`{apiGroups: [""], apiVersions: [v1], resources: [pods/status]}`:                    "names a subresource",
		`{apiGroups: [acme.io], apiVersions: [v1], resources: [widgets], scope: Cluster}`:   `"Cluster" is converted for kinds of Kubernetes`,
	} {
		result := convert.Source("", []byte(fmt.Sprintf(deletingPolicy, rule)), options)
		found := slices.ContainsFunc(result.Findings, func(f convert.Finding) bool { return f.Lost && strings.HasPrefix(f.Reason, want) })
		if !found || len(result.Policies) > 0 && !result.Policies[0].Spec.Suspend {
			t.Errorf("%s: %d policies, want a finding %q: %v", rule, len(result.Policies), want, result.Findings)
		}
	}
}

// Kyverno sends no propagationPolicy unless the policy has one, and the API server then orphans the
// Pods of a Job. For Jobs and other kinds together no propagationPolicy does the same.
func TestKyvernoPropagation(t *testing.T) {
	rule := func(group, resources string) string {
		return fmt.Sprintf(deletingPolicy, fmt.Sprintf("{apiGroups: [%s], apiVersions: [v1], resources: [%s]}", group, resources))
	}
	cleaning := strings.Replace(withConditions, "[Pod]", "[%s]", 1)
	for source, want := range map[string]string{
		rule("batch", "jobs"):     "Orphan",
		rule("batch", "cronjobs"): "",
		rule("acme.io", "jobs"):   "",
		rule("batch", "jobs") + "  deletionPropagationPolicy: Background": "Background",
		rule("batch", "jobs, cronjobs"):                                   "suspended",
		fmt.Sprintf(cleaning, "Job", "{}"):                                "Orphan",
		fmt.Sprintf(cleaning, "ReplicationController", "{}"):              "Orphan",
		fmt.Sprintf(cleaning, "Deployment", "{}"):                         "",
		fmt.Sprintf(cleaning, "Job, Deployment", "{}"):                    "suspended",
	} {
		spec := single(t, source).Spec
		got := string(spec.PropagationPolicy)
		if spec.Suspend {
			got = "suspended"
		}
		if got != want {
			t.Errorf("%s: propagationPolicy %q, want %q", source, got, want)
		}
	}
}
