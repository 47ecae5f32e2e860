package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const webhookSA = "system:serviceaccount:curfew-system:curfew-webhook"

// celVariable is a variable of a policy, of any type.
type celVariable admissionv1.Variable

func (v *celVariable) GetName() string          { return v.Name }
func (v *celVariable) GetExpression() string    { return v.Expression }
func (v *celVariable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

// limits is a ValidatingAdmissionPolicy, compiled as the API server does.
type limits struct {
	selects  webhook
	match    celplugin.ConditionEvaluator
	messages []string
	permit   []celplugin.ConditionEvaluator
}

func limitsOf(t *testing.T, objects []runtime.Object, name string) *limits {
	t.Helper()
	for _, policy := range only[*admissionv1.ValidatingAdmissionPolicy](objects) {
		if policy.Name != name {
			continue
		}
		env := environment.MustBaseEnvSet(oldest)
		out := &limits{selects: webhook{config: "policy", name: name, namespaces: &metav1.LabelSelector{}}}
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			out.selects.rules = append(out.selects.rules, rule.RuleWithOperations)
		}
		for _, condition := range policy.Spec.MatchConditions {
			out.selects.conditions = append(out.selects.conditions, admissionv1.MatchCondition(condition))
		}
		out.match = compile(t, out.selects, env)
		compiler, err := celplugin.NewCompositedCompiler(env)
		must(t, err)
		declared := celplugin.OptionalVariableDeclarations{HasAuthorizer: true}
		for _, variable := range policy.Spec.Variables {
			result := compiler.CompileAndStoreVariable((*celVariable)(&variable), declared, environment.NewExpressions)
			if result.Error != nil {
				t.Fatalf("%s: variable %s: %v", name, variable.Name, result.Error)
			}
		}
		for _, validation := range policy.Spec.Validations {
			accessor := &matchconditions.MatchCondition{Expression: validation.Expression}
			if result := compiler.CompileCELExpression(accessor, declared, environment.NewExpressions); result.Error != nil {
				t.Fatalf("%s: the validation %q does not compile: %v", name, validation.Message, result.Error)
			}
			out.permit = append(out.permit, compiler.CompileCondition([]celplugin.ExpressionAccessor{accessor}, declared, environment.NewExpressions))
			out.messages = append(out.messages, validation.Message)
		}
		return out
	}
	t.Fatalf("there is no ValidatingAdmissionPolicy %s", name)
	return nil
}

// denial is the first message of a validation that a request fails, or "".
func (l *limits) denial(t *testing.T, r request) string {
	t.Helper()
	attributes := r.attributes(t, parseUntyped)
	if !l.selects.selects(t, attributes, r.namespaceLabels()) || !l.selects.matches(t, attributes, l.match, "") {
		return ""
	}
	for i, permit := range l.permit {
		if !l.selects.matches(t, attributes, permit, "") {
			return l.messages[i]
		}
	}
	return ""
}

// limited is a request of one of Curfew's accounts and a part of the message that denies it, "" if it
// is allowed.
type limited struct {
	request
	denied string
}

func (l *limits) check(t *testing.T, user string, rows map[string]limited) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if row.user == "" {
				row.user = user
			}
			got := l.denial(t, row.request)
			if got == "" && row.denied != "" || row.denied == "" && got != "" || !strings.Contains(got, row.denied) {
				t.Errorf("denied %q, want %q", got, row.denied)
			}
		})
	}
}

// many is a map or a list with n entries whose keys begin with a prefix.
func many(prefix string, n int, list bool) string {
	var out []string
	for i := range n {
		if entry := fmt.Sprintf("%s%d", prefix, i); list {
			out = append(out, entry)
		} else {
			out = append(out, entry+": a")
		}
	}
	return strings.Join(out, ", ")
}

// TestPauseThatHasEnded: a DeletionPause whose end has passed is created with a warning.
func TestPauseThatHasEnded(t *testing.T) {
	kinds["deletionpauses"] = v1alpha1.GroupVersion.WithKind("DeletionPause")
	until := func(instant string) request {
		return request{resource: "deletionpauses", new: "{metadata: {name: a, creationTimestamp: '2026-12-24T12:00:00Z'}, spec: {reason: x" + instant + "}}"}
	}
	limitsOf(t, build(t, "base"), "curfew-pause").check(t, "someone", map[string]limited{
		"without an end": {until(""), ""},
		"that will end":  {until(", until: '2026-12-24T12:00:01Z'"), ""},
		"that ended":     {until(", until: '2026-12-24T11:59:59Z'"), "spec.until has passed, so this pause holds nothing"},
	})
}

// TestLimitsOfTheController: what its account may write on Pods, Namespaces and runtimes.
func TestLimitsOfTheController(t *testing.T) {
	const tracked = "batch.kubernetes.io/job-tracking"
	noted := func(annotations string) string {
		return "{metadata: {name: a, annotations: {" + annotations + "}, finalizers: [" + tracked + "]}}"
	}
	held := func(finalizers ...string) string {
		return "{metadata: {name: a, finalizers: [" + strings.Join(finalizers, ", ") + "]}}"
	}
	labelled := func(labels, more string) string { return "{metadata: {name: a, labels: {" + labels + "}" + more + "}}" }
	const leaving = ", deletionTimestamp: '2026-01-01T00:00:00Z'"
	full := many("example.com/a", 1000, false)
	invented := many("example.com/a", 981, false) + ", " + many("curfew.dev/x", 20, false)
	large, finalizers := many("example.com/a", 1100, false), many("example.com/f", 1100, true)
	and := func(keys, more string) string { return keys + ", " + more }
	limitsOf(t, build(t, "base"), "curfew-controller").check(t, controllerSA, map[string]limited{
		"finished-at":                         {request{resource: "pods", old: noted("a: b"), new: noted("a: b, curfew.dev/finished-at: c")}, ""},
		"by another account":                  {request{resource: "pods", old: noted("a: b"), new: noted("a: c"), user: "someone"}, ""},
		"an annotation of others changes":     {request{resource: "pods", old: noted("a: b"), new: noted("a: c")}, "annotations"},
		"an annotation of others is removed":  {request{resource: "pods", old: noted("a: b"), new: noted("")}, "annotations"},
		"an annotation of others is added":    {request{resource: "pods", old: noted("a: b"), new: noted("a: b, c: d")}, "annotations"},
		"a label of others is added":          {request{resource: "pods", old: labelled("", ""), new: labelled("a: b", "")}, "labels"},
		"… while the Pod is being deleted":    {request{resource: "pods", old: labelled("", leaving), new: labelled("a: b", leaving)}, ""},
		"… removed meanwhile":                 {request{resource: "pods", old: labelled("a: b", leaving), new: labelled("", leaving)}, "labels"},
		"a Namespace's labels":                {request{resource: "namespaces", old: labelled("", ""), new: labelled("pod-security.kubernetes.io/enforce: privileged", "")}, "labels"},
		"… by its status":                     {request{resource: "namespaces", sub: "status", old: labelled("", ""), new: labelled("istio-injection: disabled", "")}, "labels"},
		"… of one being deleted":              {request{resource: "namespaces", sub: "status", old: labelled("", leaving), new: labelled("a: b", leaving)}, "labels"},
		"… Curfew's":                          {request{resource: "namespaces", old: labelled("a: b", ""), new: labelled("a: b, curfew.dev/in-use: ''", "")}, ""},
		"a Namespace's annotations by status": {request{resource: "namespaces", sub: "status", old: noted("a: b"), new: noted("a: b, scheduler.alpha.kubernetes.io/node-selector: x=y")}, "annotations"},

		"the Job controller's finalizer":         {request{resource: "pods", old: held(tracked), new: held()}, "finalizer"},
		"Curfew's finalizer":                     {request{resource: "pods", old: held(tracked), new: held(tracked, "curfew.dev/tally")}, ""},
		"… is removed":                           {request{resource: "pods", old: held(tracked, "curfew.dev/tally"), new: held(tracked)}, ""},
		"… twice":                                {request{resource: "pods", old: held("curfew.dev/tally"), new: held("curfew.dev/tally", "curfew.dev/tally")}, "finalizer"},
		"another finalizer under Curfew's name":  {request{resource: "pods", old: held(), new: held("curfew.dev/thief")}, "finalizer"},
		"many finalizers":                        {request{resource: "pods", old: held(finalizers, tracked), new: held(finalizers, tracked, "curfew.dev/tally")}, ""},
		"… and the Job controller's among these": {request{resource: "pods", old: held(finalizers, tracked), new: held(finalizers, "curfew.dev/tally")}, "finalizer"},
		"… and get another":                      {request{resource: "pods", old: held(finalizers), new: held(finalizers, "thief.example.com/a")}, "finalizer"},
		"many of a Namespace":                    {request{resource: "namespaces", old: held(finalizers, tracked), new: held(finalizers)}, "finalizer"},
		"one in place of a repeated one":         {request{resource: "pods", old: held("a.example.com/a", "a.example.com/a"), new: held("a.example.com/a", "b.example.com/b")}, "finalizer"},

		"a key of a user under Curfew's name":  {request{resource: "pods", old: noted(""), new: noted("curfew.dev/ttl-after-finished: 1s")}, "annotations"},
		"… goes":                               {request{resource: "pods", old: noted("curfew.dev/protect: 'true'"), new: noted("")}, "annotations"},
		"… on a Namespace":                     {request{resource: "namespaces", old: noted(""), new: noted("curfew.dev/default-ttl: 1s")}, "annotations"},
		"an invented one as a label":           {request{resource: "pods", old: labelled("", ""), new: labelled("curfew.dev/x: a", "")}, "labels"},
		"an annotation is replaced by another": {request{resource: "pods", old: noted("a: b"), new: noted("c: d")}, "annotations"},
		"… by Curfew's":                        {request{resource: "pods", old: noted("a: b"), new: noted("curfew.dev/counted-by: a")}, "annotations"},
		"a Pod with 1,000 annotations":         {request{resource: "pods", old: noted(full), new: noted(and(full, "curfew.dev/counted-by: a"))}, ""},
		"… 20 of them with Curfew's prefix":    {request{resource: "pods", old: noted(invented), new: noted(and(invented, "curfew.dev/counted-by: a"))}, ""},
		"… and 20 as labels":                   {request{resource: "pods", old: labelled(invented, ""), new: labelled(and(invented, "curfew.dev/ttl: 1h"), "")}, ""},
		"… gets another":                       {request{resource: "pods", old: noted(full), new: noted(and(full, "curfew.dev/x: a"))}, "annotations"},
		"… while it is being deleted":          {request{resource: "pods", old: labelled(full, leaving), new: labelled(and(full, "a: b"), leaving)}, "labels"},
		"… up to 1,000":                        {request{resource: "pods", old: labelled("", leaving), new: labelled(and(full, "curfew.dev/ttl: 1h"), leaving)}, ""},
		"a Pod with more":                      {request{resource: "pods", old: noted(large), new: noted(and(large, "curfew.dev/counted-by: a"))}, ""},
		"… without it again":                   {request{resource: "pods", old: noted(and(large, "curfew.dev/counted-by: a")), new: noted(large)}, ""},
		"… gets another annotation":            {request{resource: "pods", old: noted(large), new: noted(and(large, "a: b"))}, "annotations"},
		"… with Curfew's prefix":               {request{resource: "pods", old: noted(large), new: noted(and(large, "curfew.dev/x: a"))}, "annotations"},
		"… in place of Curfew's":               {request{resource: "pods", old: noted(and(large, "curfew.dev/counted-by: a")), new: noted(and(large, "a: b"))}, "annotations"},
		"… gets another label":                 {request{resource: "pods", old: labelled(large, ""), new: labelled(and(large, "a: b"), "")}, "labels"},
		"… while it is being deleted too":      {request{resource: "pods", old: labelled(large, leaving), new: labelled(and(large, "a: b"), leaving)}, "labels"},
		"… and its labels":                     {request{resource: "pods", old: labelled("a: b", ", annotations: {"+large+"}"), new: labelled("", ", annotations: {"+large+"}")}, "labels"},
		"… and its finalizer":                  {request{resource: "pods", old: noted(large), new: strings.ReplaceAll(noted(large), tracked, "")}, "finalizer"},
	})
	training := func(spec, metadata string) string {
		return "{metadata: {name: a" + metadata + "}, spec: {" + spec + "}}"
	}
	const plan, shell = "template: {spec: {image: a}}", "template: {spec: {image: thief}}"
	for _, resource := range []string{"trainingruntimes", "clustertrainingruntimes"} {
		change := func(old, new, denied string) limited {
			return limited{request{resource: resource, old: old, new: new}, denied}
		}
		rows := map[string]limited{
			"since when its TTL applies":  change(training(plan, ""), training(plan, ", annotations: {curfew.dev/default-since: b}"), ""),
			"in use":                      change(training(plan, ""), training(plan, ", labels: {curfew.dev/in-use: ''}"), ""),
			"what it runs":                change(training(plan, ""), training(shell, ""), "spec"),
			"its TTL":                     change(training(plan, ""), training(plan, ", annotations: {curfew.dev/ttl-after-finished: 1s}"), "annotations"),
			"a label of others":           change(training(plan, ""), training(plan, ", labels: {a: b}"), "labels"),
			"… while it is being deleted": change(training(plan, leaving), training(plan, leaving+", labels: {a: b}"), "labels"),
			"a finalizer of others":       change(training(plan, ", finalizers: [a.example.com/a]"), training(plan, ""), "finalizer"),
			"its owner":                   change(training(plan, ""), training(plan, ", ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: a}]"), "owners"),
		}
		named := map[string]limited{}
		for name, row := range rows {
			named[resource+" "+name] = row
		}
		limitsOf(t, build(t, "base"), "curfew-controller").check(t, controllerSA, named)
	}
}

// Keys that a webhook of others writes may be exempt. They exempt no others, nor the rest of the
// object.
func TestLimitsExemptWebhookKeys(t *testing.T) {
	objects := build(t, "base")
	for _, policy := range only[*admissionv1.ValidatingAdmissionPolicy](objects) {
		if policy.Name == "curfew-controller" {
			if policy.Spec.Variables[0].Name != "webhookKeys" {
				t.Fatalf("the first variable, which the chart and docs/troubleshooting.md set, is %s", policy.Spec.Variables[0].Name)
			}
			policy.Spec.Variables[0].Expression = `["example.com/owner"]`
		}
	}
	rows := map[string]limited{}
	for _, where := range []string{"labels", "annotations"} {
		object := func(keys string) string { return fmt.Sprintf("{metadata: {name: a, %s: {%s}}}", where, keys) }
		for name, row := range map[string]limited{
			"added":           {request{old: object("a: b"), new: object("a: b, example.com/owner: x, curfew.dev/in-use: ''")}, ""},
			"changed":         {request{old: object("example.com/owner: x"), new: object("example.com/owner: y")}, ""},
			"another":         {request{old: object(""), new: object("example.com/other: x")}, where},
			"in its place":    {request{old: object("a: b"), new: object("example.com/owner: x")}, where},
			"another with it": {request{old: object("example.com/owner: x"), new: object("a: b")}, where},
		} {
			row.resource = "namespaces"
			rows[where+" "+name] = row
		}
	}
	limitsOf(t, objects, "curfew-controller").check(t, controllerSA, rows)
}

// writtenKeys are all that the controller writes on Pods, Namespaces and runtimes.
var writtenKeys = []string{
	wellknown.AnnotationCountedBy, wellknown.AnnotationDefaultSince, wellknown.AnnotationFinishedAt, wellknown.LabelInUse, wellknown.LabelPodsInUse,
	wellknown.LabelTTL, wellknown.AnnotationLabelSource,
}

// TestLimitsAllowWrittenKeys: the list of keys is written by hand.
func TestLimitsAllowWrittenKeys(t *testing.T) {
	limits := limitsOf(t, build(t, "base"), "curfew-controller")
	for _, where := range []string{"labels", "annotations"} {
		for _, key := range slices.Concat(writtenKeys, wellknown.ObjectKeys, wellknown.NamespaceKeys) {
			row := limited{request{resource: "namespaces", old: "{metadata: {name: a}}", new: fmt.Sprintf("{metadata: {name: a, %s: {%s: b}}}", where, key)}, where}
			if slices.Contains(writtenKeys, key) {
				row.denied = ""
			}
			limits.check(t, controllerSA, map[string]limited{where + " " + key: row})
		}
	}
}

// TestLimitsCostTheSameWhateverAPodHolds: a tenant can give a Pod as many keys as fit into it. The API
// server refuses the controller's write if an expression costs too much (S9).
func TestLimitsCostTheSameWhateverAPodHolds(t *testing.T) {
	limits := limitsOf(t, build(t, "base"), "curfew-controller")
	object := func(keys int) map[string]any {
		metadata := stuffing{keys, 0}.metadata("a")
		metadata["labels"].(map[string]any)[wellknown.LabelTTL] = "1h"
		metadata["annotations"].(map[string]any)[wellknown.AnnotationCountedBy] = "a"
		finalizers := []any{wellknown.FinalizerTally}
		for i := range keys {
			finalizers = append(finalizers, fmt.Sprintf("example.com/f%d", i))
		}
		metadata["finalizers"] = finalizers
		return map[string]any{"metadata": metadata}
	}
	for i, permit := range limits.permit {
		costs := map[int]int64{}
		for _, keys := range []int{10, 1000, 1001, 80000} {
			costs[keys] = cost(t, permit, kinds["pods"], kinds["pods"].GroupVersion().WithResource("pods"), "", admission.Update, object(keys), object(keys))
		}
		if costs[1000] > celconfig.PerCallLimit/10 || costs[1001] != costs[80000] || costs[1001] > costs[1000] {
			t.Errorf("%q costs, by number of keys, %v of %d", limits.messages[i], costs, celconfig.PerCallLimit)
		}
	}
}

const mutating, validating = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"

func nameConfigurations() {
	maps.Copy(kinds, map[string]schema.GroupVersionKind{
		mutating:   admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		validating: admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	})
}

// TestLimitsOfConfigurations: what Curfew's accounts may write on webhook configurations.
func TestLimitsOfConfigurations(t *testing.T) {
	nameConfigurations()
	hook := func(name, service, more string) string {
		return "{name: " + name + ", failurePolicy: Ignore, rules: [{operations: [CREATE]}], clientConfig: {service: {namespace: curfew-system, name: " + service + ", path: /mutate}" + more + "}}"
	}
	configuration := func(name string, hooks ...string) string {
		return "{metadata: {name: " + name + "}, webhooks: [" + strings.Join(hooks, ", ") + "]}"
	}
	plain, trusted, other := hook("a", "curfew-webhook", ""), hook("a", "curfew-webhook", ", caBundle: QQ=="), hook("b", "curfew-webhook", ", caBundle: QQ==")
	elsewhere, byURL := hook("a", "thief", ""), "{name: a, failurePolicy: Ignore, clientConfig: {url: 'https://thief.example.com/'}}"
	withPath := func(path string) string { return strings.Replace(plain, "/mutate", path, 1) }
	fails := strings.Replace(plain, "Ignore", "Fail", 1)
	more := strings.Replace(trusted, "CREATE", "DELETE", 1)
	plan := strings.Replace(configuration("curfew-kinds", trusted), "name: curfew-kinds", "name: curfew-kinds, annotations: {cert-manager.io/inject-ca-from: a}", 1)
	kept := strings.Replace(configuration("curfew-kinds", trusted), "name: curfew-kinds", "name: curfew-kinds, finalizers: [thief.example.com/a]", 1)
	objects := build(t, "base")
	limitsOf(t, objects, "curfew-configurations").check(t, webhookSA, map[string]limited{
		"the bundle":                      {request{resource: mutating, old: configuration("curfew", plain, other), new: configuration("curfew", trusted, other)}, ""},
		"… of what the controller writes": {request{resource: validating, old: configuration("curfew-kinds", plain), new: configuration("curfew-kinds", trusted)}, ""},
		"… of another's":                  {request{resource: mutating, old: configuration("gatekeeper", plain), new: configuration("gatekeeper", trusted)}, "its own"},
		"by an administrator":             {request{resource: mutating, old: configuration("curfew", plain), new: configuration("curfew", elsewhere), user: "admin"}, ""},
		"the address":                     {request{resource: mutating, old: configuration("curfew", plain), new: configuration("curfew", elsewhere)}, "only caBundle"},
		"a URL":                           {request{resource: mutating, old: configuration("curfew", plain), new: configuration("curfew", byURL)}, "only caBundle"},
		"rules":                           {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", more)}, "only caBundle"},
		"a removed field":                 {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", strings.Replace(trusted, "failurePolicy: Ignore, ", "", 1))}, "only caBundle"},
		"failurePolicy":                   {request{resource: mutating, old: configuration("curfew", plain), new: configuration("curfew", fails)}, "only caBundle"},
		"a webhook more":                  {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", trusted, other)}, "only caBundle"},
		"a webhook less":                  {request{resource: mutating, old: configuration("curfew", trusted, other), new: configuration("curfew", trusted)}, "only caBundle"},
		"none":                            {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew")}, "only caBundle"},
		"a label":                         {request{resource: mutating, old: configuration("curfew", trusted), new: strings.Replace(configuration("curfew", trusted), "name: curfew}", "name: curfew, labels: {a: b}}", 1)}, "only caBundle"},
		"an annotation":                   {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: plan}, "only caBundle"},
		"a finalizer":                     {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: kept}, "finalizers"},
		"a new one":                       {request{resource: mutating, new: configuration("curfew-kinds", trusted)}, "only caBundle"},
	})
	limitsOf(t, objects, "curfew-configurations").check(t, controllerSA, map[string]limited{
		"created":                     {request{resource: mutating, new: configuration("curfew-kinds", plain)}, ""},
		"created, under another name": {request{resource: mutating, new: configuration("thief", plain)}, "its own"},
		"created, without a name":     {request{resource: mutating, new: "{metadata: {generateName: thief}, webhooks: [" + plain + "]}"}, "its own"},
		"created with another server": {request{resource: validating, new: configuration("curfew-kinds", plain, elsewhere)}, "only to Curfew's"},
		"… with a URL":                {request{resource: validating, new: configuration("curfew-kinds", byURL)}, "only to Curfew's"},
		"created with a finalizer":    {request{resource: mutating, new: kept}, "finalizers"},
		"… on another path":           {request{resource: mutating, new: configuration("curfew-kinds", withPath("/v1/default"))}, "only to Curfew's"},
		"… on the other's path":       {request{resource: validating, new: configuration("curfew-kinds", plain)}, "only to Curfew's"},
		"… on no path":                {request{resource: mutating, new: configuration("curfew-kinds", strings.Replace(plain, ", path: /mutate", "", 1))}, "only to Curfew's"},
		"… on its port":               {request{resource: mutating, new: configuration("curfew-kinds", withPath("/mutate, port: 443"))}, ""},
		"… on another port":           {request{resource: mutating, new: configuration("curfew-kinds", withPath("/mutate, port: 8443"))}, "only to Curfew's"},
		"a path":                      {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: configuration("curfew-kinds", trusted, withPath("/v1/default"))}, "only to Curfew's"},
		"rules":                       {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: configuration("curfew-kinds", more, other)}, ""},
		"annotations":                 {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: plan}, ""},
		"emptied":                     {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: "{metadata: {name: curfew-kinds}}"}, ""},
		"another server":              {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: configuration("curfew-kinds", elsewhere)}, "only to Curfew's"},
		"a mutating one that fails":   {request{resource: mutating, old: configuration("curfew-kinds", trusted), new: configuration("curfew-kinds", fails)}, "fail none"},
		"a validating one that fails": {request{resource: validating, old: configuration("curfew-kinds", trusted), new: strings.ReplaceAll(configuration("curfew-kinds", fails), "/mutate", "/validate")}, ""},
		"the static one":              {request{resource: mutating, old: configuration("curfew", plain), new: configuration("curfew", trusted)}, "its own"},
	})
	local := strings.ReplaceAll(byURL, "thief.example.com/", "127.0.0.1:9443/mutate")
	localThief := strings.ReplaceAll(local, "/mutate", "/v1/default")
	limitsOf(t, build(t, "overlays/local"), "curfew-configurations").check(t, controllerSA, map[string]limited{
		"local, created":             {request{resource: mutating, new: configuration("curfew-kinds", local)}, ""},
		"local, with another server": {request{resource: mutating, new: configuration("curfew-kinds", byURL)}, "only to Curfew's"},
		"local, with another path":   {request{resource: mutating, new: configuration("curfew-kinds", localThief)}, "only to Curfew's"},
		"local, of the other kind":   {request{resource: validating, new: configuration("curfew-kinds", local)}, "only to Curfew's"},
	})
	limitsOf(t, objects, "curfew-ca-bundle").check(t, "admin", map[string]limited{
		"another bundle":          {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", strings.Replace(trusted, "QQ==", "Qg==", 1))}, "caBundle"},
		"no bundle":               {request{resource: validating, old: configuration("curfew", trusted), new: configuration("curfew", plain)}, "caBundle"},
		"the first bundle":        {request{resource: mutating, old: configuration("curfew", plain), new: configuration("curfew", trusted)}, ""},
		"rules":                   {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", more)}, ""},
		"a webhook less":          {request{resource: mutating, old: configuration("curfew", trusted, other), new: configuration("curfew", trusted)}, ""},
		"another bundle, by ours": {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", plain), user: webhookSA}, ""},
		"… by cert-manager":       {request{resource: mutating, old: configuration("curfew", trusted), new: configuration("curfew", plain), user: "system:serviceaccount:cert-manager:cert-manager-cainjector"}, ""},
	})
}

// TestLimitsAllowWhatTheControllerPlans: it copies the address from the static configurations.
func TestLimitsAllowWhatTheControllerPlans(t *testing.T) {
	nameConfigurations()
	for _, overlay := range []string{"base", "overlays/local"} {
		objects := build(t, overlay)
		mutates, validates := planned(t, &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller", FailClosed: true}, objects)
		rows := map[string]limited{}
		for resource, planned := range map[string]any{mutating: mutates, validating: validates} {
			text, err := yaml.Marshal(planned)
			must(t, err)
			rows[overlay+" "+resource] = limited{request{resource: resource, new: string(text)}, ""}
		}
		limitsOf(t, objects, "curfew-configurations").check(t, controllerSA, rows)
	}
}
