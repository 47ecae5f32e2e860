package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

var now = time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)

// compile compiles a ClusterCleanupPolicy with this spec, which matches ConfigMaps unless it says
// otherwise.
func compile(t *testing.T, spec string) *cleanup.Policy {
	t.Helper()
	out, err := tryCompile(spec)
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return out
}

func tryCompile(spec string) (*cleanup.Policy, error) {
	object := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &object.Spec); err != nil {
		return nil, err
	}
	if object.Spec.MatchConstraints.ResourceRules == nil {
		object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	}
	if object.Spec.Schedule == "" {
		object.Spec.Schedule = "@daily"
	}
	out, errs := cleanup.Compile(expression.NewCompiler(10), object)
	return out, errs.ToAggregate()
}

// object is a ConfigMap "a" in namespace "ci" unless the YAML says otherwise.
func object(t *testing.T, text string) *cleanup.Candidate {
	t.Helper()
	json := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	metadata := map[string]any{"name": "a", "namespace": "ci", "uid": "1", "creationTimestamp": "2026-11-01T00:00:00Z"}
	given := map[string]any{}
	must(t, yaml.Unmarshal([]byte(text), &given))
	for key, value := range given {
		if values, ok := value.(map[string]any); ok && key == "metadata" {
			for k, v := range values {
				metadata[k] = v
			}
			continue
		}
		json[key] = value
	}
	json["metadata"] = metadata
	version, _ := json["apiVersion"].(string)
	kind, _ := json["kind"].(string)
	gv, err := schema.ParseGroupVersion(version)
	must(t, err)
	profile := &policy.Profile{Name: kind, Kind: gv.WithKind(kind)}
	if kind == "Pod" {
		profile = policy.PodProfile
	}
	out := &cleanup.Candidate{Facts: policy.FactsOfObject(profile, json), JSON: json, Now: now, Resource: schema.GroupResource{Group: gv.Group, Resource: strings.ToLower(kind) + "s"}}
	if out.Facts.Namespace != "" {
		out.Namespace = resolution.ParseNamespace(out.Facts.Namespace, nil, map[string]string{"team": "a"})
	}
	return out
}

func said(d cleanup.Decision) string {
	switch d.Verdict {
	case cleanup.Delete:
		return "delete"
	case cleanup.Skip:
		return d.Reason
	default:
		return "no match"
	}
}

func TestWhatMatches(t *testing.T) {
	rules := func(text string) string { return "{matchConstraints: {resourceRules: [" + text + "]}}" }
	for name, c := range map[string]struct{ spec, object, want string }{
		"everything":               {"{}", "{}", "delete"},
		"another resource":         {rules(`{apiGroups: [""], resources: [secrets]}`), "{}", "no match"},
		"another group":            {rules(`{apiGroups: [apps], resources: [configmaps]}`), "{}", "no match"},
		"any group":                {rules(`{apiGroups: ["*"], resources: [configmaps]}`), "{}", "delete"},
		"any resource":             {rules(`{apiGroups: [""], resources: ["*"]}`), "{}", "delete"},
		"this name":                {rules(`{apiGroups: [""], resources: [configmaps], resourceNames: [a]}`), "{}", "delete"},
		"another name":             {rules(`{apiGroups: [""], resources: [configmaps], resourceNames: [b]}`), "{}", "no match"},
		"a name with a wildcard":   {rules(`{apiGroups: [""], resources: [configmaps], resourceNames: ["b", "pr-*-?"]}`), "{metadata: {name: pr-17-x}}", "delete"},
		"nearly that name":         {rules(`{apiGroups: [""], resources: [configmaps], resourceNames: ["pr-*-?"]}`), "{metadata: {name: pr-17-xy}}", "no match"},
		"its labels":               {"{matchConstraints: {objectSelector: {matchLabels: {app: x}}}}", "{metadata: {labels: {app: x}}}", "delete"},
		"other labels":             {"{matchConstraints: {objectSelector: {matchLabels: {app: x}}}}", "{metadata: {labels: {app: y}}}", "no match"},
		"no label":                 {"{matchConstraints: {objectSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}}", "{}", "delete"},
		"its namespace":            {"{matchConstraints: {namespaceSelector: {matchLabels: {team: a}}}}", "{}", "delete"},
		"another namespace":        {"{matchConstraints: {namespaceSelector: {matchLabels: {team: b}}}}", "{}", "no match"},
		"cluster-scoped":           {"{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [widgets]}], namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}}", "{kind: Widget, metadata: {namespace: null}}", "no match"},
		"excluded by label":        {"{exclude: {objectSelector: {matchLabels: {keep: 'yes'}}}}", "{metadata: {labels: {keep: 'yes'}}}", "no match"},
		"not excluded":             {"{exclude: {objectSelector: {matchLabels: {keep: 'yes'}}}}", "{metadata: {labels: {keep: 'no'}}}", "delete"},
		"excluded by name":         {"{exclude: {resourceRules: [{apiGroups: ['*'], resources: ['*'], resourceNames: ['keep-*']}]}}", "{metadata: {name: keep-1}}", "no match"},
		"excluded by namespace":    {"{exclude: {namespaceSelector: {matchLabels: {team: a}}}}", "{}", "no match"},
		"excluded, essential":      {`{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumes]}]}, exclude: {resourceRules: [{apiGroups: ["*"], resources: ["*"], resourceNames: ["*-db"]}]}}`, "{kind: PersistentVolume, metadata: {name: pv-db, namespace: null}}", "no match"},
		"essential, by name":       {`{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumes]}]}}`, "{kind: PersistentVolume, metadata: {name: pv-1, namespace: null}}", "delete"},
		"only half excluded":       {"{exclude: {namespaceSelector: {matchLabels: {team: a}}, objectSelector: {matchLabels: {keep: 'yes'}}}}", "{}", "delete"},
		"a condition":              {"{conditions: [{name: old, expression: 'now - timestamp(object.metadata.creationTimestamp) > duration(\"24h\")'}]}", "{}", "delete"},
		"a condition that is not":  {"{conditions: [{name: old, expression: 'now - timestamp(object.metadata.creationTimestamp) > duration(\"2400h\")'}]}", "{}", "no match"},
		"a condition that fails":   {"{conditions: [{name: x, expression: 'object.metadata.labels.x == \"y\"'}]}", "{}", "EvaluationFailed"},
		"one fails, one is false":  {"{conditions: [{name: x, expression: 'object.metadata.labels.x == \"y\"'}, {name: z, expression: 'false'}]}", "{}", "no match"},
		"a condition that is null": {"{conditions: [{name: x, expression: 'object.?data.orValue(null)'}]}", "{}", "no match"},
		"the namespace's labels":   {"{conditions: [{name: x, expression: 'namespaceObject.metadata.labels.team == \"a\"'}]}", "{}", "delete"},
		"a variable":               {"{variables: [{name: v, expression: object.metadata.name}, {name: m, expression: variables.v + \"!\"}], conditions: [{name: x, expression: 'variables.m == \"a!\"'}]}", "{}", "delete"},
		"a variable that fails":    {"{variables: [{name: v, expression: object.metadata.labels.x}], conditions: [{name: x, expression: 'variables.v == \"a\"'}]}", "{}", "EvaluationFailed"},
		"a variable not used":      {"{variables: [{name: v, expression: object.metadata.labels.x}]}", "{}", "delete"},
		"no owner":                 {"{conditions: [{name: x, expression: '!lookup.owned'}]}", "{}", "delete"},
		"an owner":                 {"{conditions: [{name: x, expression: '!lookup.owned'}]}", "{metadata: {ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: u}]}}", "no match"},
		"a lookup of other kinds":  {"{conditions: [{name: x, expression: '!lookup.mounted'}]}", "{}", "EvaluationFailed"},
		"bound":                    {"{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [persistentvolumeclaims]}]}, conditions: [{name: x, expression: '!lookup.bound'}]}", "{kind: PersistentVolumeClaim, status: {phase: Bound}}", "no match"},
		"unbound":                  {"{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [persistentvolumeclaims]}]}, conditions: [{name: x, expression: '!lookup.bound'}]}", "{kind: PersistentVolumeClaim, status: {phase: Pending}}", "delete"},
		"no phase":                 {"{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [persistentvolumeclaims]}]}, conditions: [{name: x, expression: '!lookup.bound'}]}", "{kind: PersistentVolumeClaim}", "EvaluationFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := compile(t, c.spec).Judge(context.Background(), object(t, c.object))
			if said(got) != c.want {
				t.Errorf("%s: %q, want %q", said(got), got.Message, c.want)
			}
		})
	}
}

// What matches is kept all the same for these reasons. Without them the policy would delete it.
func TestWhatIsKept(t *testing.T) {
	all := `{matchConstraints: {resourceRules: [{apiGroups: ["*", "", "batch", "curfew.dev"], resources: ["*", secrets, configmaps, serviceaccounts, namespaces, pods, jobsets]}]}}`
	owned := func(kind string) string {
		return "ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: " + kind + ", name: o, uid: u, controller: true}]"
	}
	for name, c := range map[string]struct{ spec, object, want string }{
		"nothing special":       {all, "{kind: Secret}", "delete"},
		"terminating":           {all, "{metadata: {deletionTimestamp: '2026-11-30T00:00:00Z'}}", "Terminating"},
		"protected":             {all, "{metadata: {annotations: {curfew.dev/protect: 'true'}}}", "Protected"},
		"protected, unreadable": {all, "{metadata: {annotations: {curfew.dev/protect: ja}}}", "Protected"},
		"a copy":                {all, "{kind: Pod, metadata: {labels: {kueue.x-k8s.io/multikueue-origin: m}}}", "MultiKueueCopy"},
		"owned":                 {all, "{metadata: {" + owned("A") + "}}", "Owned"},
		"owned, included":       {strings.Replace(all, "{", "{includeOwned: true, ", 1), "{metadata: {" + owned("A") + "}}", "delete"},
		"a TrainJob's JobSet":   {strings.Replace(all, "{", "{includeOwned: true, ", 1), "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {" + owned("TrainJob") + "}}", "OwnerRunsItAgain"},
		"not accounted for":     {all, "{kind: Pod, metadata: {finalizers: [batch.kubernetes.io/job-tracking]}}", "NotAccountedFor"},
		"the root certificate":  {all, "{metadata: {name: kube-root-ca.crt}}", "Essential"},
		"of that name":          {`{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps], resourceNames: [kube-root-ca.crt]}]}}`, "{metadata: {name: kube-root-ca.crt}}", "delete"},
		"like that name":        {`{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps], resourceNames: ["kube-*"]}]}}`, "{metadata: {name: kube-root-ca.crt}}", "Essential"},
		"a service account":     {all, "{kind: ServiceAccount, metadata: {name: default}}", "Essential"},
		"default Namespace":     {all, "{kind: Namespace, metadata: {name: default, namespace: null}}", "Essential"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compile(t, c.spec).Judge(context.Background(), object(t, c.object)); said(got) != c.want {
				t.Errorf("%s: %q, want %q", said(got), got.Message, c.want)
			}
		})
	}
	p := compile(t, all)
	o := object(t, "{kind: Pod, metadata: {labels: {kueue.x-k8s.io/multikueue-origin: m}}}")
	o.NoMultiKueue = true
	if got := p.Judge(context.Background(), o); said(got) != "delete" {
		t.Errorf("no copy, since there is no Kueue: %s", said(got))
	}
	o = object(t, "{}")
	o.Namespace = resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationMode: "dry-run"}, nil)
	if got := p.Judge(context.Background(), o); said(got) != "NamespaceDryRun" {
		t.Errorf("in dry-run: %s", said(got))
	}
	o.Namespace = nil
	if got := p.Judge(context.Background(), o); said(got) != "NamespaceUnknown" {
		t.Errorf("in an unknown namespace: %s", said(got))
	}
	o = object(t, "{}")
	o.System = true
	if got := p.Judge(context.Background(), o); said(got) != "ProtectedNamespace" {
		t.Errorf("in kube-system: %s", said(got))
	}
}

func TestLookupsDecide(t *testing.T) {
	p := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumeclaims, pods]}]}, conditions: [{name: x, expression: 'object.kind == "Pod" ? !lookup.selectedByService : !lookup.mounted'}]}`)
	if want := []string{expression.LookupService, expression.LookupMounted}; fmt.Sprint(p.Expressions.Lookups) != fmt.Sprint(want) {
		t.Errorf("lookups %v, want %v", p.Expressions.Lookups, want)
	}
	for _, kind := range []string{"Pod", "PersistentVolumeClaim"} {
		o := object(t, "{kind: "+kind+"}")
		for want, answer := range map[string]func(string) (bool, error){
			"delete":           func(string) (bool, error) { return false, nil },
			"no match":         func(string) (bool, error) { return true, nil },
			"EvaluationFailed": func(string) (bool, error) { return false, errors.New("forbidden") },
		} {
			if o.Lookup = answer; said(p.Judge(context.Background(), o)) != want {
				t.Errorf("%s: %s, want %s", kind, said(p.Judge(context.Background(), o)), want)
			}
		}
		if o.Lookup = nil; said(p.Judge(context.Background(), o)) != "EvaluationFailed" {
			t.Errorf("%s without lookups: %s", kind, said(p.Judge(context.Background(), o)))
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for spec, want := range map[string]string{
		`{conditions: [{name: x, expression: 'nope'}]}`:                                                          "spec.conditions[0].expression",
		`{conditions: [{name: x, expression: '"yes"'}]}`:                                                         "must be true or false",
		`{conditions: [{name: x, expression: 'variables.y'}]}`:                                                   "spec.conditions[0].expression",
		`{variables: [{name: a, expression: variables.b}, {name: b, expression: '1'}]}`:                          "spec.variables[0].expression",
		`{variables: [{name: a, expression: '1'}], conditions: [{name: x, expression: 'variables.a == "one"'}]}`: "no matching overload",
		`{conditions: [{name: x, expression: 'lookup.nothing'}]}`:                                                "undeclared reference",
		`{keepNewest: {count: 1, groupBy: '1'}}`:                                                                 "spec.keepNewest.groupBy",
		`{keepNewest: {count: 1, sortBy: '1'}}`:                                                                  "spec.keepNewest.sortBy",
		`{matchConstraints: {objectSelector: {matchExpressions: [{key: a, operator: Is}]}}}`:                     "spec.matchConstraints.objectSelector",
		`{schedule: "61 * * * *"}`:                                                                               "spec.schedule",
		`{schedule: "0 0 30 2 *"}`:                                                                               "would never run",
		`{schedule: "TZ=UTC 0 0 * * *"}`:                                                                         "spec.schedule",
		`{timeZone: Mars/Olympus}`:                                                                               "spec.schedule",
		`{exclude: {namespaceSelector: {matchLabels: {"a b": c}}}}`:                                              "spec.exclude.namespaceSelector",
	} {
		if _, err := tryCompile(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
	namespaced := &v1alpha1.CleanupPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p"}}
	namespaced.Spec.Schedule = "@daily"
	namespaced.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{"*"}, Resources: []string{"*"}}}
	if _, errs := cleanup.CompileNamespaced(expression.NewCompiler(1), namespaced); errs.ToAggregate() == nil {
		t.Error("a CleanupPolicy without a service account would run with Curfew's rights")
	}
	for _, name := range []string{"a:b", "../janitor", "Janitor", "a/b", "janitor?x=y", " janitor"} {
		namespaced.Spec.ServiceAccountName = name
		_, errs := cleanup.CompileNamespaced(expression.NewCompiler(1), namespaced)
		if len(errs) != 1 || errs[0].Field != "spec.serviceAccountName" {
			t.Errorf("a service account %q: %v", name, errs)
		}
	}
	namespaced.Spec.ServiceAccountName = "janitor"
	p, errs := cleanup.CompileNamespaced(expression.NewCompiler(1), namespaced)
	if errs.ToAggregate() != nil || p.Account.String() != "ci/janitor" || p.ID() != "cleanup/ci/p" {
		t.Errorf("%v: account %s, %s", errs, p.Account, p.ID())
	}
	if got := p.Judge(context.Background(), object(t, "{metadata: {namespace: other}}")); said(got) != "no match" {
		t.Errorf("an object of another namespace: %s", said(got))
	}
}

func TestWhatTheObjectIsNeededFor(t *testing.T) {
	for source, want := range map[string]bool{
		`object.metadata.name == "a"`:                                     false,
		`object.kind == "Pod" && object.apiVersion == "v1"`:               false,
		`object.?metadata.?labels["x"].orValue("") == "a"`:                false,
		`has(object.metadata.labels)`:                                     false,
		`now > timestamp(object.metadata.creationTimestamp)`:              false,
		`object.status.phase == "Failed"`:                                 true,
		`object.?status.hasValue()`:                                       true,
		`has(object.spec)`:                                                true,
		`object["metadata"].name == "a"`:                                  true,
		`[object].exists(o, o.metadata.name == "a")`:                      true,
		`object.metadata.name == "a" || object.spec == object.metadata`:   true,
		`namespaceObject.metadata.name == "a" && !lookup.owned`:           false,
		`object.metadata.labels.exists(k, k == "spec") || variables.deep`: true,
	} {
		p, err := tryCompile(`{variables: [{name: deep, expression: 'true'}], conditions: [{name: x, expression: '` + source + `'}]}`)
		if strings.Contains(source, "variables.deep") {
			p, err = tryCompile(`{variables: [{name: deep, expression: object.spec.x}], conditions: [{name: x, expression: '` + source + `'}]}`)
		}
		if err != nil || p.Expressions.NeedsObject != want {
			t.Errorf("%s: needs the object %v (%v), want %v", source, p.Expressions.NeedsObject, err, want)
		}
	}
}

func TestHash(t *testing.T) {
	base := compile(t, "{schedule: '0 2 * * *'}")
	for spec, same := range map[string]bool{
		"{schedule: '0 2 * * *', suspend: true}":         true,
		"{schedule: '0 3 * * *'}":                        false,
		"{schedule: '0 2 * * *', includeOwned: true}":    false,
		"{schedule: '0 2 * * *', serviceAccountName: a}": false,
		"{schedule: '0 2 * * *', dryRun: true}":          false,
	} {
		if got := compile(t, spec).Hash == base.Hash; got != same {
			t.Errorf("%s: same hash %v, want %v", spec, got, same)
		}
	}
}

func TestWidens(t *testing.T) {
	const base = "{schedule: '0 2 * * *', maxDeletions: 5}"
	for name, c := range map[string]struct {
		before, after string
		want          bool
	}{
		"new":               {"", base, true},
		"new and suspended": {"", "{suspend: true}", false},
		"the same":          {base, base, false},
		"suspended":         {base, "{schedule: '0 2 * * *', maxDeletions: 5, suspend: true}", false},
		"resumed":           {"{schedule: '0 2 * * *', maxDeletions: 5, suspend: true}", base, true},
		"made a dry run":    {base, "{schedule: '0 2 * * *', maxDeletions: 5, dryRun: true}", false},
		"made live":         {"{schedule: '0 2 * * *', maxDeletions: 5, dryRun: true}", base, true},
		"another limit":     {base, "{schedule: '0 2 * * *', maxDeletions: 6}", true},
		"another account":   {base, "{schedule: '0 2 * * *', maxDeletions: 5, serviceAccountName: a, serviceAccountNamespace: b}", true},
		"a dry run of more": {base, "{schedule: '0 2 * * *', dryRun: true}", true},
	} {
		var before *cleanup.Policy
		if c.before != "" {
			before = compile(t, c.before)
		}
		if got := compile(t, c.after).Widens(before); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

var must = builders.Must
