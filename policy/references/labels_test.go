package references

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A program chooses a ConfigMap by its labels, and names it nowhere.
func TestWhatChoosesByLabel(t *testing.T) {
	custom := func(spec string) string {
		return "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: dev, name: x}, spec: {" + spec + "}}"
	}
	pod := func(container string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {namespace: dev, name: x}, spec: {containers: [{name: c, " + container + "}]}}"
	}
	binding := func(spec string) string {
		return "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: x}, spec: {" + spec + "}}"
	}
	const fruit, app = "fruit: apple", "app: web, tier: front"
	for name, c := range map[string]struct{ labels, object, want string }{
		"parameters of a policy":          {app, binding("paramRef: {selector: {matchLabels: {app: web}}}"), "true"},
		"parameters of another value":     {fruit, binding("paramRef: {selector: {matchLabels: {fruit: pear}}}"), "false"},
		"all parameters":                  {fruit, binding("paramRef: {selector: {}}"), "false"},
		"what a policy matches":           {fruit, binding("matchResources: {objectSelector: {matchLabels: {fruit: apple}}}"), "false"},
		"a source of trust-manager":       {fruit, custom("sources: [{configMap: {selector: {matchLabels: {fruit: apple}}, key: k}}]"), "true"},
		"labels of any name":              {fruit, custom("from: {fruit: apple}"), "true"},
		"an everyday label":               {app, custom("selector: {matchLabels: {app: web, tier: front}}"), "true"},
		"an everyday label without value": {app, custom("from: {app: x, tier: [app, web]}"), "false"},
		"another value":                   {app, custom("selector: {matchLabels: {app: db}}"), "false"},
		"another label as well":           {app, custom("selector: {matchLabels: {app: web, tier: back}}"), "false"},
		"an expression":                   {app, custom("selector: {matchExpressions: [{key: app, operator: In, values: [db, web]}]}"), "true"},
		"an expression of other values":   {app, custom("selector: {matchExpressions: [{key: app, operator: In, values: [db]}]}"), "false"},
		"a label that exists":             {app, custom("selector: {matchExpressions: [{key: app, operator: Exists}]}"), "true"},
		"a label that is another one":     {app, custom("selector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}"), "true"},
		"a label that it lacks":           {app, custom("selector: {matchExpressions: [{key: color, operator: DoesNotExist}]}"), "false"},
		"a template for a value":          {app, custom("selector: {matchLabels: {app: '{{ app }}', tier: front}}"), "true"},
		"what is no selector":             {app, custom("selector: {matchLabels: {app: 3}}"), "true"},
		"a text with a selector":          {app, custom("labelSelector: 'tier==front,app!=db'"), "true"},
		"labels of a custom object":       {fruit, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: dev, name: x, labels: {fruit: apple}}}", "false"},
		"labels of a template":            {fruit, custom("template: {metadata: {labels: {fruit: apple}}}"), "false"},
		"a variable of a sidecar":         {"jenkins-jenkins-config: 'true'", pod("env: [{name: LABEL, value: jenkins-jenkins-config}]"), "true"},
		"a key of other characters":       {"Config_of.web: a", pod("args: ['--label=Config_of.web']"), "true"},
		"an argument with a value":        {app, pod("args: [--selector=app=web]"), "true"},
		"an argument with another value":  {app, pod("args: [--selector=app=db, --app=, --app]"), "false"},
		"an everyday label of a sidecar":  {app, pod("env: [{name: LABEL, value: app}]"), "true"},
		"a template of an everyday label": {app, pod("env: [{name: LABEL, value: '{{app}}'}]"), "true"},
		"a sidecar of an operator":        {app, custom("containers: [{env: [{name: LABEL, value: app}]}]"), "true"},
		"an everyday label as an option":  {app, pod("args: [--label-selector=app]"), "true"},
		"an option before its argument":   {app, pod("args: [--label, app]"), "true"},
		"an option of another label":      {app, pod("args: ['--label-selector=app=db', --label=team, --label, 'tier=back']"), "false"},
		"everyday words":                  {app, pod("env: [{name: MODE, value: app}], args: [app, --mode=tier, --mode, app]"), "false"},
		"a text with a set":               {app, pod("args: ['app in (db,web)']"), "true"},
		"a set within a command":          {app, pod("command: [sh, -c, 'kubectl get cm -l \"app in (web)\"']"), "true"},
		"a set of other values":           {app, pod("args: [-l, 'app in (db)']"), "false"},
		"a selector as a text":            {app, custom("labelSelector: app"), "true"},
		"a selector of labels alone":      {app, custom("podSelector: {app: web, tier: front}"), "true"},
		"one of another value":            {app, custom("selector: {app: web, tier: back}"), "false"},
		"a short option":                  {app, pod("args: [-l, app]"), "true"},
		"the label of a metric":           {app, custom("jobLabel: app, targetLabel: tier"), "false"},
		"a longer word":                   {fruit, pod("args: [fruits, my_fruit]"), "false"},
		"data":                            {fruit, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: dev, name: x}, data: {value: fruit}}", "false"},
		"the name of a variable":          {fruit, pod("env: [{name: fruit}]"), "false"},
		"the selector of a Deployment":    {fruit, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: dev, name: x}, spec: {selector: {matchLabels: {fruit: apple}}}}", "false"},
		"a Service":                       {fruit, "{apiVersion: v1, kind: Service, metadata: {namespace: dev, name: x}, spec: {selector: {fruit: apple}}}", "false"},
		"a PodDisruptionBudget":           {fruit, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: dev, name: x}, spec: {selector: {matchLabels: {fruit: apple}}}}", "false"},
	} {
		all, kind := NewCandidates(), schema.GroupKind{Kind: "ConfigMap"}
		_, values := read(t, "{"+c.labels+"}")
		labels := map[string]string{"helm.sh/chart": "x"}
		for key, value := range values {
			labels[key] = fmt.Sprint(value)
		}
		must(t, all.Add(kind, "ci", "settings", labels))
		all.Scan(read(t, c.object))
		if got := answer(all.Referenced(kind, "ci", "settings", labels)); got != c.want {
			t.Errorf("%s: %s refers to a ConfigMap with labels %s: %s, want %s", name, c.object, c.labels, got, c.want)
		}
	}
}

// A tenant may write any number of labels, which take memory: what has too many counts as used, and
// if all together have too many, nothing is known.
func TestLabelsAreBounded(t *testing.T) {
	defer func(before int) { maxMarks = before }(maxMarks)
	maxMarks = 150
	all, kind := NewCandidates(), schema.GroupKind{Kind: "ConfigMap"}
	labels := func(name string, count int) map[string]string {
		values := map[string]string{}
		for i := range count {
			values[fmt.Sprintf("%s-%d", name, i)] = "x"
		}
		return values
	}
	add := func(name string, count int) error { return all.Add(kind, "ci", name, labels(name, count)) }
	if err := errors.Join(add("few", maxLabels), add("many", maxLabels+1), add("more", 1000)); err != nil {
		t.Fatal(err)
	}
	used := func(name string, v map[string]string) string { return answer(all.Referenced(kind, "ci", name, v)) }
	if got := []string{used("few", labels("few", maxLabels)), used("many", labels("many", maxLabels+1)), used("more", labels("more", 1000)),
		used("few", map[string]string{"few-1": "y"}) /* relabelled since the list */}; strings.Join(got, " ") != "false true true unknown" {
		t.Errorf("used: %q", got)
	}
	if err := add("other", maxLabels); err == nil {
		t.Errorf("%d labels were kept", len(all.chosen.labels))
	}
}

// A tenant may write any number of selectors. With too many, a label that they need is enough.
func TestSelectorsAreBounded(t *testing.T) {
	all, kind := NewCandidates(), schema.GroupKind{Kind: "ConfigMap"}
	tier := func(n string) map[string]string { return map[string]string{"app": "web", "tier": n} }
	must(t, errors.Join(all.Add(kind, "ci", "in-front", tier("front")), all.Add(kind, "ci", "in-back", tier("back"))))
	check := func(want string) {
		got := answer(all.Referenced(kind, "ci", "in-front", tier("front"))) + " " + answer(all.Referenced(kind, "ci", "in-back", tier("back")))
		if got != want || all.chosen.count != 2*maxOfLabel {
			t.Errorf("%d selectors choose %s, want %s", all.chosen.count, got, want)
		}
	}
	selects := func(i int) {
		all.Scan(read(t, fmt.Sprintf("{apiVersion: example.com/v1, kind: Any, metadata: {name: x}, spec: {selector: {matchLabels: {app: web, tier: back}, matchExpressions: [{key: extra, operator: In, values: [a%d]}]}}}", i)))
	}
	for i := range maxOfLabel {
		selects(i)
		selects(i)
	}
	check("false false")
	for i := range 2 * maxOfLabel {
		selects(maxOfLabel + i)
	}
	check("true true")
}

// Candidates with the same labels share them, and labels of programs are not held: these show by
// themselves that the candidate is used. Labels take less than 30% of what the candidates take.
func TestLabelsAreShared(t *testing.T) {
	held := func(labels func(i int) map[string]string) (*Candidates, float64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		all := NewCandidates()
		for i := range 3000 {
			must(t, all.Add(schema.GroupKind{Kind: "ConfigMap"}, fmt.Sprint("team-", i%20), fmt.Sprint("settings-", i), labels(i)))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		return all, float64(after.HeapAlloc) - float64(before.HeapAlloc)
	}
	_, without := held(func(int) map[string]string { return nil })
	all, with := held(func(i int) map[string]string {
		return map[string]string{"app": fmt.Sprint("web-", i/15), "app.kubernetes.io/name": "web", "team": fmt.Sprint("team-", i%20), "argocd.argoproj.io/instance": fmt.Sprint(i)}
	})
	if got, want := len(all.chosen.labels), 3+200+1+20; got != want || with > 1.3*without {
		t.Errorf("holds %d labels, want %d, in %.0f bytes, and %.0f without", got, want, with, without)
	}
	runtime.KeepAlive(all)
}

// A label with a domain shows by itself that an object is used, unless everyone has it.
func TestEverydayLabels(t *testing.T) {
	for _, key := range everyday {
		if strings.Contains(key, "/") && !slices.Contains(plain, key) {
			t.Errorf("%s shows by itself that an object is used", key)
		}
	}
}
