package cleanup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

const volumes = `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumes, persistentvolumeclaims]}]}, conditions: [{name: x, expression: '`

// A lookup without an answer keeps the object, whatever operators make of the error. Without the
// lookup each of these policies deletes it.
func TestUnknownLookupsKeep(t *testing.T) {
	unanswered := func(string) (bool, error) { return false, errors.New("the list failed") }
	for expression, lookup := range map[string]func(string) (bool, error){
		"!lookup.mounted": unanswered,
		"!lookup.mounted || object.metadata.name == \"a\"":                            unanswered,
		"object.metadata.name != \"a\" || !lookup.mounted || true":                    unanswered,
		"!(lookup.mounted && object.metadata.name == \"b\")":                          unanswered,
		"[1, 2].exists(i, i == 1 ? lookup.mounted : true)":                            unanswered,
		"[true, lookup.mounted][0] || true":                                           unanswered,
		"!lookup.bound || true":                                                       nil,
		"!lookup.mounted || !lookup.bound || true":                                    nil,
		"object.metadata.name == \"a\" && (lookup.selectedByService || true)":         nil,
		"object.metadata.name == \"a\" && (lookup.selectedByService == true || true)": unanswered,
	} {
		for _, kind := range []string{"PersistentVolume, metadata: {namespace: null}", "PersistentVolumeClaim"} {
			o := object(t, "{kind: "+kind+", spec: {}}")
			o.Lookup = lookup
			got := compile(t, volumes+expression+"'}]}").Judge(context.Background(), o)
			if said(got) != "LookupFailed" && said(got) != "EvaluationFailed" {
				t.Errorf("%s, %s: %s, want a failed lookup or evaluation", kind, expression, said(got))
			}
		}
	}
	newest := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumeclaims]}]}, keepNewest: {count: 1, groupBy: '(lookup.mounted || true) ? "a" : "b"'}}`)
	o := object(t, "{kind: PersistentVolumeClaim}")
	o.Lookup = unanswered
	if got := newest.Judge(context.Background(), o); said(got) != "LookupFailed" {
		t.Errorf("in groupBy: %s", said(got))
	}
	// The same object is judged again with the current answers.
	o.Lookup = func(string) (bool, error) { return false, nil }
	if got := newest.Judge(context.Background(), o); said(got) != "delete" {
		t.Errorf("with an answer: %s", said(got))
	}
}

// A list of metadata shows neither spec nor status: no lookup is asked whether such a volume is
// mounted, since the answer would be that it has no claim.
func TestLookupsNeedTheirFields(t *testing.T) {
	for _, c := range []struct{ expression, object, want string }{
		{"!lookup.mounted", "{kind: PersistentVolume, metadata: {namespace: null}}", "EvaluationFailed"},
		{"!lookup.mounted", "{kind: PersistentVolume, metadata: {namespace: null}, spec: {}}", "delete"},
		{"!lookup.mounted", "{kind: PersistentVolumeClaim}", "delete"},
		{"!lookup.bound", "{kind: PersistentVolume, metadata: {namespace: null}, spec: {}}", "EvaluationFailed"},
		{"!lookup.bound", "{kind: PersistentVolume, metadata: {namespace: null}, status: {phase: Released}}", "delete"},
	} {
		p, o := compile(t, volumes+c.expression+"'}]}"), object(t, c.object)
		o.Lookup = func(string) (bool, error) { return false, nil }
		if got := p.Judge(context.Background(), o); said(got) != c.want {
			t.Errorf("%s of %s: %s %s, want %s", c.expression, c.object, said(got), got.Message, c.want)
		}
		if !p.NeedsObject() {
			t.Errorf("%s reads metadata alone", c.expression)
		}
	}
	if compile(t, volumes+"!lookup.owned'}]}").NeedsObject() {
		t.Error("lookup.owned reads whole objects")
	}
}

// Whether an object is referenced follows from the object itself, or from other objects, or is
// unknown. Only a ConfigMap that nothing uses for certain is deleted.
func TestReferenced(t *testing.T) {
	for name, c := range map[string]struct {
		object     string
		referenced bool
		failed     error
		want       string
	}{
		"nothing refers to it":   {object: "{}", want: "delete"},
		"another object does":    {object: "{}", referenced: true, want: "no match"},
		"unknown":                {object: "{}", failed: errors.New("the list failed"), want: "kept"},
		"it has an owner":        {object: "{metadata: {ownerReferences: [{kind: Any, name: x}]}}", want: "no match"},
		"Grafana finds it":       {object: `{metadata: {labels: {grafana_dashboard: "1"}}}`, want: "no match"},
		"Helm installed it":      {object: "{metadata: {annotations: {meta.helm.sh/release-name: web}}}", want: "no match"},
		"younger than an hour":   {object: `{metadata: {creationTimestamp: "2026-12-01T01:00:01Z"}}`, want: "kept"},
		"an hour old":            {object: `{metadata: {creationTimestamp: "2026-12-01T01:00:00Z"}}`, want: "delete"},
		"of a later time":        {object: `{metadata: {creationTimestamp: "2026-12-02T00:00:00Z"}}`, want: "kept"},
		"no creation is known":   {object: "{metadata: {creationTimestamp: null}}", want: "kept"},
		"labels of its own":      {object: "{metadata: {labels: {app: web, app.kubernetes.io/name: web}}}", want: "delete"},
		"young, and it is owned": {object: `{metadata: {creationTimestamp: "2026-12-01T01:59:00Z", ownerReferences: [{kind: Any}]}}`, want: "kept"},
	} {
		for _, expression := range []string{"!lookup.referenced", "!(lookup.referenced || false)", "lookup.referenced ? false : true"} {
			t.Run(name+"/"+expression, func(t *testing.T) {
				o := object(t, c.object)
				o.Lookup = func(string) (bool, error) { return c.referenced, c.failed }
				p := compile(t, "{conditions: [{name: x, expression: '"+expression+"'}]}")
				if got := p.Judge(context.Background(), o); outcome(got) != c.want {
					t.Errorf("%s %s, want %s", said(got), got.Message, c.want)
				}
				if p.NeedsObject() {
					t.Error("it reads more than the metadata")
				}
			})
		}
		if c.want == "kept" {
			o := object(t, c.object)
			o.Lookup = func(string) (bool, error) { return c.referenced, c.failed }
			if got := compile(t, "{conditions: [{name: x, expression: '!lookup.referenced || true'}]}").Judge(context.Background(), o); said(got) != "LookupFailed" {
				t.Errorf("%s: under ||: %s, want LookupFailed", name, said(got))
			}
		}
	}
}

// So it is with the other lookups that read the whole cluster.
func TestLookupsOfTheCluster(t *testing.T) {
	for _, c := range []struct{ expression, group, resource, object, inUse string }{
		{"!lookup.selects", "", "services", "kind: Service, spec: {selector: {a: b}}", "no match"},
		{"lookup.dangling", "autoscaling", "horizontalpodautoscalers", "apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {}", "delete"},
		{"!lookup.instances", "", "nodes", "kind: Node", "no match"},
		{"!lookup.referenced", "", "persistentvolumeclaims", "kind: PersistentVolumeClaim", "no match"},
	} {
		notInUse := map[string]string{"no match": "delete", "delete": "no match"}[c.inUse]
		for name, row := range map[string]struct {
			metadata string
			answer   bool
			failed   error
			want     string
		}{
			"the answer is true":  {"", true, nil, c.inUse},
			"the answer is false": {"", false, nil, notInUse},
			"no answer":           {"", false, errors.New("the list failed"), "kept"},
			"it is young":         {`creationTimestamp: "2026-12-01T01:30:00Z"`, false, nil, "kept"},
			"it is young, true":   {`creationTimestamp: "2026-12-01T01:30:00Z"`, true, nil, "kept"},
			"it has an owner":     {"ownerReferences: [{kind: Any, name: x}]", false, nil, "no match"},
		} {
			o := object(t, "{"+c.object+", metadata: {"+row.metadata+"}}")
			o.Resource.Resource, o.Facts.Namespace = c.resource, ""
			o.Lookup = func(string) (bool, error) { return row.answer, row.failed }
			for _, condition := range []string{c.expression, "[1].exists(i, " + c.expression + ")"} {
				p := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: ["`+c.group+`"], resources: [`+c.resource+`]}]}, conditions: [{name: x, expression: '`+condition+`'}]}`)
				if got := p.Judge(context.Background(), o); outcome(got) != row.want {
					t.Errorf("%s, %s: %s %s, want %s", condition, name, said(got), got.Message, row.want)
				}
				if want := c.expression == "!lookup.selects" || c.expression == "lookup.dangling"; p.NeedsObject() != want {
					t.Errorf("%s needs whole objects: %v", condition, p.NeedsObject())
				}
			}
			if row.want == "kept" {
				p := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: ["`+c.group+`"], resources: [`+c.resource+`]}]}, conditions: [{name: x, expression: '`+c.expression+` || true'}]}`)
				if got := p.Judge(context.Background(), o); said(got) != "LookupFailed" {
					t.Errorf("%s || true, %s: %s", c.expression, name, said(got))
				}
			}
		}
	}
	// Without its spec, no lookup is asked what an object selects.
	o := object(t, "{kind: Service}")
	o.Lookup = func(string) (bool, error) { return false, nil }
	if got := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [services]}]}, conditions: [{name: x, expression: '!lookup.selects'}]}`).Judge(context.Background(), o); outcome(got) != "kept" {
		t.Errorf("a Service without spec: %s", said(got))
	}
}

// outcome is what was said, or kept if a lookup has no answer: then the expression fails, or an
// operator has passed over the error.
func outcome(d cleanup.Decision) string {
	if d.Reason == cleanup.SkipLookup || d.Reason == cleanup.SkipEvaluation {
		return "kept"
	}
	return said(d)
}

// Rules that a lookup does not decide about are denied.
func TestRulesOfLookups(t *testing.T) {
	const guarded = "no policy deletes this kind by a lookup, since that may grant or allow more: delete it by name or label"
	const others = "lookup.referenced is for configmaps, ingressclasses.networking.k8s.io, persistentvolumeclaims, " +
		"priorityclasses.scheduling.k8s.io, runtimeclasses.node.k8s.io, secrets, serviceaccounts, storageclasses.storage.k8s.io: name these alone"
	const dangling = "lookup.dangling is for horizontalpodautoscalers.autoscaling, ingresses.networking.k8s.io, custom kinds whose KindProfile has references: name these alone"
	invalid := func(value, message string) string {
		return `spec.matchConstraints.resourceRules[0]: Invalid value: "` + value + `": ` + message
	}
	for _, c := range []struct{ group, resource, lookup, want string }{
		{"", "configmaps", "referenced", ""},
		{"", "secrets", "referenced", ""},
		{"", "serviceaccounts", "referenced", ""},
		{"", "services", "referenced", invalid("services", others)},
		{"", "*", "referenced", invalid("*", others)},
		{"*", "configmaps", "referenced", invalid("configmaps.*", others)},
		{"apps", "secrets", "referenced", invalid("secrets.apps", others)},
		{"storage.k8s.io", "storageclasses", "referenced", ""},
		{"", "storageclasses", "referenced", invalid("storageclasses", others)},
		{"", "persistentvolumeclaims", "referenced", ""},
		{"", "persistentvolumes", "referenced", invalid("persistentvolumes", others)},
		{"", "services", "selects", ""},
		{"", "pods", "selects", invalid("pods", "lookup.selects is for services: name these alone")},
		{"", "*", "selects", invalid("*", "lookup.selects is for services: name these alone")},
		{"policy", "poddisruptionbudgets", "selects", invalid("poddisruptionbudgets.policy", guarded)},
		{"networking.k8s.io", "networkpolicies", "selects", invalid("networkpolicies.networking.k8s.io", guarded)},
		{"autoscaling", "horizontalpodautoscalers", "dangling", ""},
		{"networking.k8s.io", "ingresses", "dangling", ""},
		{"storage.k8s.io", "volumeattachments", "dangling", invalid("volumeattachments.storage.k8s.io", dangling)},
		{"apps", "deployments", "dangling", invalid("deployments.apps", dangling)},
		{"argoproj.io", "workflows", "dangling", ""},
		{"argoproj.io", "workflows", "selects", invalid("workflows.argoproj.io", "lookup.selects is for services: name these alone")},
		{"argoproj.io", "*", "dangling", invalid("*.argoproj.io", dangling)},
		{"*", "workflows", "dangling", invalid("workflows.*", dangling)},
		{"curfew.dev", "podtallies", "dangling", invalid("podtallies.curfew.dev", dangling)},
		{"rbac.authorization.k8s.io", "rolebindings", "dangling", invalid("rolebindings.rbac.authorization.k8s.io", guarded)},
		{"", "namespaces", "instances", ""},
		{"", "nodes", "instances", ""},
		{"", "configmaps", "instances", invalid("configmaps", "lookup.instances is for namespaces, nodes: name these alone")},
		{"apiextensions.k8s.io", "customresourcedefinitions", "instances", invalid("customresourcedefinitions.apiextensions.k8s.io", guarded)},
		{"", "services", "owned", ""},
		{"*", "*", "owned", ""},
		{"rbac.authorization.k8s.io", "roles", "owned", invalid("roles.rbac.authorization.k8s.io", guarded)},
		{"rbac.authorization.k8s.io", "clusterrolebindings", "referenced", invalid("clusterrolebindings.rbac.authorization.k8s.io", guarded)},
		{"admissionregistration.k8s.io", "validatingwebhookconfigurations", "owned", invalid("validatingwebhookconfigurations.admissionregistration.k8s.io", guarded)},
		{"apiextensions.k8s.io", "customresourcedefinitions", "owned", invalid("customresourcedefinitions.apiextensions.k8s.io", guarded)},
		{"networking.k8s.io", "networkpolicies", "owned", invalid("networkpolicies.networking.k8s.io", guarded)},
		{"networking.k8s.io", "ingresses", "owned", ""},
		{"*", "poddisruptionbudgets", "owned", invalid("poddisruptionbudgets.*", guarded)},
		{"policy", "poddisruptionbudgets", "owned", invalid("poddisruptionbudgets.policy", guarded)},
	} {
		_, err := tryCompile(`{matchConstraints: {resourceRules: [{apiGroups: ["` + c.group + `"], resources: ["` + c.resource + `"]}]}, conditions: [{name: x, expression: "!lookup.` + c.lookup + `"}]}`)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s.%s by %s: %q, want %q", c.resource, c.group, c.lookup, got, c.want)
		}
	}
	if _, err := tryCompile(`{matchConstraints: {resourceRules: [{apiGroups: [policy], resources: [poddisruptionbudgets]}]}}`); err != nil {
		t.Errorf("without a lookup: %v", err)
	}
}

// What a wildcard matches is guarded all the same, unless the lookup does not count.
func TestLookupsOfGuardedKinds(t *testing.T) {
	for expression, want := range map[string]string{"!lookup.owned": "kept", "!lookup.owned || true": "kept", `object.metadata.name == "a" || !lookup.owned`: "delete"} {
		p := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: [networking.k8s.io], resources: ["*"]}]}, conditions: [{name: x, expression: '`+expression+`'}]}`)
		o := object(t, "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy}")
		o.Resource = schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"}
		if got := p.Judge(context.Background(), o); outcome(got) != want {
			t.Errorf("%s: %s, want %s", expression, said(got), want)
		}
	}
}

// A report answers lookups about the kinds that policies may not delete by them, and keeps what no
// lookup is about. No policy says that it is a report.
func TestReports(t *testing.T) {
	spec := func(group, resource, condition string) *v1alpha1.ClusterCleanupPolicy {
		out := &v1alpha1.ClusterCleanupPolicy{}
		out.Spec.Schedule = "@yearly"
		out.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{group}, Resources: []string{resource}}}
		out.Spec.Conditions = []v1alpha1.CleanupCondition{{Name: "x", Expression: v1alpha1.Expression(condition)}}
		return out
	}
	for _, c := range []struct{ group, resource, kind, condition, field, want string }{
		{"rbac.authorization.k8s.io", "roles", "Role", "!lookup.referenced", "", "delete"},
		{"rbac.authorization.k8s.io", "rolebindings", "RoleBinding", "lookup.dangling", "roleRef", "no match"},
		{"rbac.authorization.k8s.io", "rolebindings", "RoleBinding", "!lookup.dangling", "roleRef", "delete"},
		{"networking.k8s.io", "networkpolicies", "NetworkPolicy", "!lookup.selects", "spec", "delete"},
		{"policy", "poddisruptionbudgets", "PodDisruptionBudget", "!lookup.selects", "spec", "delete"},
		{"policy", "poddisruptionbudgets", "PodDisruptionBudget", "!lookup.selects", "", "kept"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "!lookup.instances", "", "delete"},
		{"apps", "deployments", "Deployment", "!lookup.referenced", "", "kept"},
	} {
		policy := spec(c.group, c.resource, c.condition)
		p, errs := cleanup.CompileReport(expression.NewCompiler(10), policy)
		if len(errs) > 0 || !p.Report {
			t.Fatal(errs)
		}
		text := "{apiVersion: " + c.group + "/v1, kind: " + c.kind
		if c.field != "" {
			text += ", " + c.field + ": {name: a}"
		}
		o := object(t, text+"}")
		o.Resource = schema.GroupResource{Group: c.group, Resource: c.resource}
		o.Lookup = func(string) (bool, error) { return false, nil }
		got := p.Judge(context.Background(), o)
		if deletes := got.Verdict == cleanup.Delete; deletes != (c.want == "delete") {
			t.Errorf("%s, %s: %+v, want %s", c.resource, c.condition, got, c.want)
		}
		if ordinary, errs := cleanup.Compile(expression.NewCompiler(10), policy); len(errs) == 0 || ordinary.Report {
			t.Errorf("%s, %s: a policy is admitted", c.resource, c.condition)
		} else if got := ordinary.Judge(context.Background(), o); got.Verdict == cleanup.Delete {
			t.Errorf("%s, %s: a policy deletes it", c.resource, c.condition)
		}
	}
}

// A program uses a Service by its labels or annotations, also from other clusters.
func TestServicesOfPrograms(t *testing.T) {
	for metadata, want := range map[string]string{
		"labels: {app: web, app.kubernetes.io/name: web}":        "delete",
		"annotations: {service.cilium.io/global: 'true'}":        "no match",
		"labels: {topology.istio.io/network: n1}":                "no match",
		"annotations: {cloud.google.com/neg: '{ingress: true}'}": "no match",
	} {
		o := object(t, "{kind: Service, spec: {selector: {a: b}}, metadata: {"+metadata+"}}")
		o.Resource.Resource, o.Lookup = "services", func(string) (bool, error) { return false, nil }
		p := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [services]}]}, conditions: [{name: x, expression: '!lookup.selects'}]}`)
		if got := p.Judge(context.Background(), o); outcome(got) != want {
			t.Errorf("%s: %s %s, want %s", metadata, said(got), got.Message, want)
		}
	}
}

// A CleanupPolicy cannot know what other namespaces refer to.
func TestReferencedInOneNamespace(t *testing.T) {
	for resource, lookup := range map[string]string{"configmaps": "lookup.referenced", "services": "lookup.selects"} {
		object := &v1alpha1.CleanupPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p"}}
		object.Spec.Schedule, object.Spec.ServiceAccountName = "@daily", "janitor"
		object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{resource}}}
		object.Spec.Conditions = []v1alpha1.CleanupCondition{{Name: "x", Expression: v1alpha1.Expression("!" + lookup)}}
		_, errs := cleanup.CompileNamespaced(expression.NewCompiler(10), object)
		want := `spec.conditions: Invalid value: "` + lookup + `": any object of the cluster may refer to an object: use a ClusterCleanupPolicy`
		if err := errs.ToAggregate(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Kinds of Kubernetes that use others cannot be ignored.
func TestIgnoredKinds(t *testing.T) {
	const needed = "objects of Kubernetes' own kinds show whether others are used: let the account list them"
	for _, c := range []struct{ group, kind, resource, lookup, want string }{
		{"example.com", "Runner", "configmaps", "referenced", ""},
		{"", "Secret", "configmaps", "referenced", ""},
		{"example.com", "Runner", "services", "selects", ""},
		{"", "Pod", "configmaps", "referenced", `"Pod": ` + needed},
		{"apps", "Deployment", "configmaps", "referenced", `"Deployment.apps": ` + needed},
		{"apps", "Secret", "configmaps", "referenced", `"Secret.apps": ` + needed},
		{"*", "Runner", "configmaps", "referenced", `"Runner.*": name one group and one kind`},
		{"example.com", "*", "configmaps", "referenced", `"*.example.com": name one group and one kind`},
		{"example.com", "Runner", "namespaces", "instances", `"Runner.example.com": lookup.instances ignores no kind, since a Namespace is deleted with all that it has: let the account list it`},
	} {
		p, err := tryCompile(`{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [` + c.resource + `]}]}, conditions: [{name: x, expression: "!lookup.` + c.lookup + `"}],
			lookups: {ignoreKinds: [{group: "` + c.group + `", kind: "` + c.kind + `"}]}}`)
		got := ""
		if err != nil {
			got = err.Error()
		} else if len(p.Ignored()) != 1 {
			t.Errorf("%+v: ignores %v", c, p.Ignored())
		}
		if got = strings.TrimPrefix(got, "spec.lookups.ignoreKinds[0]: Invalid value: "); got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
}
