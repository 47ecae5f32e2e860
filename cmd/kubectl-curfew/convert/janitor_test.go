package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
	"curfew.dev/curfew/policy/cleanup"
)

func rules(t *testing.T, text string) (map[string]*cleanup.Policy, map[string]bool) {
	t.Helper()
	result := convert.Source("", []byte("rules:\n"+text), options)
	compiled, suspended := map[string]*cleanup.Policy{}, map[string]bool{}
	for i := range result.Policies {
		policy := &result.Policies[i]
		compiled[policy.Object.GetName()], suspended[policy.Object.GetName()] = usable(t, policy), policy.Spec.Suspend
	}
	return compiled, suspended
}

// Every expression matches as in kube-janitor: null, false and empty values are false.
func TestJanitorExpressions(t *testing.T) {
	for expression, objects := range map[string]struct{ delete, keep []string }{
		"!(spec.template.metadata.labels.owner)": {
			[]string{"{}", "spec: {}", "spec: {template: {metadata: {labels: {owner: ''}}}}", "spec: {template: {metadata: {labels: {a: b}}}}"},
			[]string{"spec: {template: {metadata: {labels: {owner: me}}}}"}},
		"starts_with(metadata.name, 'pr-')":                            {[]string{"metadata: {name: pr-1}"}, []string{"metadata: {name: xpr-1}"}},
		"metadata.namespace == 'temp'":                                 {[]string{"metadata: {namespace: temp}"}, []string{"metadata: {namespace: temp2}", "metadata: {namespace: null}"}},
		"metadata.namespace != 'temp'":                                 {[]string{"metadata: {namespace: temp2}"}, []string{"metadata: {namespace: temp}"}},
		"metadata.labels.app == ''":                                    {[]string{"metadata: {labels: {app: ''}}"}, []string{"{}", "metadata: {labels: {app: x}}"}},
		"spec.suspended":                                               {[]string{"spec: {suspended: true}", "spec: {suspended: 1}"}, []string{"spec: {suspended: 0}", "spec: {suspended: 0.0}", "spec: {suspended: false}", "{}", "spec: {suspended: {}}", "spec: {suspended: []}"}},
		"metadata.creationTimestamp > '2026-10-01' && !(spec.keep)":    {[]string{"{}"}, []string{"spec: {keep: true}", "metadata: {creationTimestamp: '2026-09-01T00:00:00Z'}"}},
		"metadata.labels.\"app.io/a-b\" || metadata.annotations.x":     {[]string{"metadata: {labels: {app.io/a-b: x}}", "metadata: {annotations: {x: y}}"}, []string{"{}", "metadata: {labels: {ab: x}}"}},
		"contains(metadata.name, 'tmp') || contains(spec.tags, 'tmp')": {[]string{"metadata: {name: a-tmp}", "spec: {tags: [tmp]}", "spec: {tags: a tmp}"}, []string{"spec: {tags: [tm]}", "{}"}},
		// Python's bool of the result is false for 0, and JMESPath's own truth value is not.
		"!(spec.replicas)":                    {[]string{"{}"}, []string{"spec: {replicas: 0}", "spec: {replicas: 1}"}},
		"spec.replicas || metadata.name":      {[]string{"{}", "spec: {replicas: 1}"}, []string{"spec: {replicas: 0}"}},
		"spec.replicas && metadata.name":      {[]string{"spec: {replicas: 0}"}, []string{"{}"}},
		"length(metadata.finalizers || `[]`)": {[]string{"metadata: {finalizers: [a]}"}, []string{"{}", "metadata: {finalizers: []}"}},
		"spec.containers[0].image == 'a'":     {[]string{"spec: {containers: [{image: a}]}"}, []string{"spec: {containers: []}", "spec: {containers: [{image: b}, {image: a}]}"}},
	} {
		t.Run(expression, func(t *testing.T) {
			compiled, suspended := rules(t, fmt.Sprintf("- {id: r, resources: [deployments], jmespath: %q, ttl: 1d}", expression))
			if suspended["r"] {
				t.Fatal("not converted")
			}
			expectDeletes(t, compiled["r"], split(objects.delete, objects.keep))
		})
	}
}

func TestJanitorAge(t *testing.T) {
	for ttl, oldest := range map[string]string{"30s": "11:59:30", "5m": "11:55:00", "2h": "10:00:00"} {
		compiled, _ := rules(t, fmt.Sprintf("- {id: r, resources: [pods], jmespath: metadata.name, ttl: %s}", ttl))
		expectDeletes(t, compiled["r"], map[string]bool{
			"metadata: {creationTimestamp: '2026-11-22T" + oldest + "Z'}":                           false,
			"metadata: {creationTimestamp: '2026-11-21T23:59:59Z'}":                                 true,
			"metadata: {creationTimestamp: '2026-11-21T23:59:59Z', annotations: {janitor/ttl: 9w}}": false, // a TTL of its own
		})
	}
}

// The first rule that matches decides: a later one with a shorter TTL must not delete the object.
func TestJanitorFirstRuleDecides(t *testing.T) {
	compiled, suspended := rules(t, `
- {id: long, resources: [deployments, statefulsets], jmespath: "metadata.labels.tier == 'gold'", ttl: 9w}
- {id: kept, resources: ["*"], jmespath: "metadata.labels.keep", ttl: forever}
- {id: short, resources: [deployments, pods], jmespath: "starts_with(metadata.name, 'pr-')", ttl: 1h}
- {id: equal, resources: [deployments], jmespath: "metadata.name", ttl: 9w}`)
	if len(compiled) != 3 || suspended["short"] {
		t.Fatal(compiled, suspended)
	}
	expectDeletes(t, compiled["short"], map[string]bool{
		"kind: Deployment\nmetadata: {name: pr-1}":                       true,
		"kind: Deployment\nmetadata: {name: pr-1, labels: {tier: tin}}":  true,
		"kind: Deployment\nmetadata: {name: pr-1, labels: {tier: gold}}": false,
		"kind: Pod\nmetadata: {name: pr-1, labels: {tier: gold}}":        true,
		"kind: Pod\nmetadata: {name: pr-1, labels: {keep: x}}":           false,
	})
	if n := len(compiled["equal"].Spec.Conditions); n != 4 { // matches, age, no-ttl, and not kept
		t.Errorf("a rule after one with the same TTL has %d conditions", n)
	}
}

func TestJanitorRulesThatAreNotConverted(t *testing.T) {
	compiled, suspended := rules(t, `
- {id: hook, resources: [configmaps], jmespath: "_context.random_dice", ttl: 9w}
- {id: after, resources: [configmaps], jmespath: "metadata.name", ttl: 1d}
- {id: other, resources: [secrets], jmespath: "metadata.name", ttl: 1d}
- {id: mounted, resources: [persistentvolumeclaims], jmespath: "!(_context.pvc_is_not_mounted)", ttl: 1d}
- {id: flattened, resources: [persistentvolumeclaims], jmespath: "_context.pvc_is_not_mounted[]", ttl: 1d}
- {id: precedence, resources: [configmaps], jmespath: "!metadata.labels.keep", ttl: 1d}
- {id: claims, resources: [persistentvolumeclaims], jmespath: "_context.pvc_is_not_mounted", ttl: 2d}
- {id: claims-too, resources: [persistentvolumeclaims], jmespath: "metadata.name", ttl: 1d}
- {id: typo, resources: [pods], jmespath: "metadata.name", ttl: 1y}
- {id: nodes, resources: [nodes], jmespath: "metadata.name", ttl: 1d}
- {id: extra, resources: [pods], jmespath: "metadata.name", ttl: 1d, unless: x}
- {id: value, resources: [pods], jmespath: "(spec.a || spec.b) == 'x'", ttl: 1d}
- {id: zero, resources: [pods], jmespath: "metadata.name", ttl: 0s}`)
	if compiled["zero"] != nil {
		t.Error("a TTL of 0, by which kube-janitor deletes nothing, became a policy")
	}
	for id, want := range map[string]bool{"hook": true, "after": true, "other": false, "mounted": true, "flattened": true, "precedence": true, "claims": false, "claims-too": true,
		"typo": true, "nodes": true, "extra": true, "value": true} {
		if suspended[id] != want || compiled[id] == nil {
			t.Errorf("rule %s: policy compiles: %t, want true; is suspended: %t, want %t", id, compiled[id] != nil, suspended[id], want)
		}
		if want && deletes(t, compiled[id], "kind: ConfigMap") {
			t.Errorf("rule %s: the suspended policy deletes a ConfigMap, want that it is kept", id)
		}
	}
	if !deletes(t, compiled["claims"], "kind: PersistentVolumeClaim") || !deletes(t, compiled["other"], "kind: Secret") {
		t.Error("a rule that is converted deletes nothing")
	}
}

// kube-janitor leaves cluster-scoped objects alone; a wildcard of Curfew would not.
func TestJanitorWildcardIsNamespaced(t *testing.T) {
	compiled, _ := rules(t, `- {id: all, resources: ["*"], jmespath: "metadata.name", ttl: 1d}`)
	expectDeletes(t, compiled["all"], map[string]bool{"kind: StorageClass\nmetadata: {namespace: null}": false, "kind: Deployment": true})
	if compiled["all"].Spec.IncludeOwned {
		t.Error("the policy deletes objects that others own")
	}
}

// The flag of kube-janitor by which objects live longer is converted, or the rules are suspended.
func TestDeploymentTime(t *testing.T) {
	const rule = "rules: [{id: r, resources: [deployments], jmespath: metadata.name, ttl: 1d}]"
	const old, deployed = "metadata: {name: a, creationTimestamp: 2020-01-01T00:00:00Z}",
		"metadata: {name: a, creationTimestamp: 2020-01-01T00:00:00Z, annotations: {example.com/at: 2200-01-01T00:00:00Z}}"
	for annotation, c := range map[string]struct{ suspended, deletesDeployed bool }{
		"": {true, false}, "none": {false, true}, "example.com/at": {false, false}, "example.com/other": {false, true},
	} {
		with := options
		with.DeploymentTime = annotation
		result := convert.Source("rules.yaml", []byte(rule), with)
		if len(result.Policies) != 1 {
			t.Fatalf("--deployment-time-annotation=%q: %d policies, want 1: %v", annotation, len(result.Policies), result.Findings)
		}
		compiled := usable(t, &result.Policies[0])
		if got := result.Policies[0].Spec.Suspend; got != c.suspended {
			t.Errorf("--deployment-time-annotation=%q: policy is suspended: %t, want %t", annotation, got, c.suspended)
		}
		refreshed := strings.Replace(deployed, "example.com/at", "curfew.dev/refreshed-at", 1)
		// kube-janitor counts from the creation if the annotation is older.
		const young = "metadata: {name: a, creationTimestamp: 2026-11-22T11:00:00Z, annotations: {example.com/at: 2020-01-01T00:00:00Z}}"
		expectDeletes(t, compiled, map[string]bool{old: !c.suspended, deployed: c.deletesDeployed, refreshed: annotation == "none", young: false})
	}
}
