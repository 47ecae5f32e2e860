package webhookconfig

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// compiled makes profiles of KindProfiles.
func compiled(t *testing.T, objects ...*v1alpha1.KindProfile) []*expression.Profile {
	t.Helper()
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	var out []*expression.Profile
	for _, object := range objects {
		profile, errs := compiler.Profile(object)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		out = append(out, profile)
	}
	return out
}

// unknown serves a kind whose schema says nothing.
func unknown(profile *expression.Profile) expression.Definition {
	return expression.Definition{Kind: profile.Kind.GroupKind(), Resource: profile.Resource, ClusterScoped: profile.ClusterScoped,
		Schemas: map[string]*expression.Schema{profile.Kind.Version: nil}}
}

func builtinKinds(t *testing.T) []platform.Served {
	t.Helper()
	objects, err := profiles.All()
	must(t, err)
	all := compiled(t, objects...)
	var definitions []expression.Definition
	for _, profile := range all {
		if profile.Kind.Group != "" && profile.Kind.Group != "batch" {
			definitions = append(definitions, unknown(profile))
		}
	}
	return platform.SnapshotOf(all, definitions).Served()
}

func service(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{CABundle: []byte("bundle"), Service: &admissionv1.ServiceReference{
		Namespace: "curfew-system", Name: "curfew-webhook", Path: &path, Port: new(int32(443))}}
}

func staticMutating() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "curfew", UID: "static-m"}, Webhooks: []admissionv1.MutatingWebhook{
		{Name: "namespaces.curfew.dev", ClientConfig: service("/mutate-namespace")},
		{Name: "defaults.curfew.dev", ClientConfig: service("/mutate"), TimeoutSeconds: new(int32(5))}}}
}

func staticValidating() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "curfew", UID: "static-v"}, Webhooks: []admissionv1.MutatingWebhook{
		{Name: "validate.curfew.dev", ClientConfig: service("/validate"), TimeoutSeconds: new(int32(5))}}}
}

// TestBuiltinProfiles: what a cluster that serves every kind with a built-in profile has. Read the
// difference before you update.
func TestBuiltinProfiles(t *testing.T) {
	mutating, validating := Configurations(&Input{Kinds: builtinKinds(t), Namespace: "curfew-system", Controller: "curfew-controller"}, staticMutating(), staticValidating())
	for name, object := range map[string]any{"mutating.yaml": mutating, "validating.yaml": validating} {
		have, err := yaml.Marshal(object)
		must(t, err)
		path := filepath.Join("testdata", name)
		if *update {
			must(t, os.WriteFile(path, have, 0o644))
			continue
		}
		want, err := os.ReadFile(path)
		must(t, err)
		if string(have) != string(want) {
			t.Errorf("%s differs: run the test with -update and read the difference", path)
		}
	}
}

// Nothing to send means no configuration, and so does nowhere to send it. Labels of any kind are
// always sent.
func TestNothingToSend(t *testing.T) {
	mutating, validating := Configurations(&Input{Namespace: "curfew-system"}, staticMutating(), staticValidating())
	if mutating != nil || len(validating.Webhooks) != len(annotationLabels)+1 {
		t.Errorf("got %v and %d webhooks without kinds and policies", mutating, len(validating.Webhooks))
	}
	_, validating = Configurations(&Input{Namespace: "curfew-system", Alias: true}, staticMutating(), staticValidating())
	if len(validating.Webhooks) != len(annotationLabels)+2 {
		t.Errorf("got %d webhooks with --kyverno-label, want one more", len(validating.Webhooks))
	}
	elsewhere := staticMutating()
	elsewhere.Webhooks = elsewhere.Webhooks[:1]
	input := &Input{Kinds: builtinKinds(t), Namespace: "curfew-system"}
	if mutating, validating := Configurations(input, elsewhere, &admissionv1.MutatingWebhookConfiguration{}); mutating != nil || validating != nil {
		t.Errorf("got %v and %v without a webhook to send to", mutating, validating)
	}
}

// PlainLabel is taken for a label that Curfew has nothing to say of.
func TestPlainLabels(t *testing.T) {
	plain := regexp.MustCompile(PlainLabel)
	for _, text := range []string{"1m", "90m", "9999d", "9999d9999d", "1d12h", "1h1h"} {
		if !plain.MatchString(text) {
			t.Errorf("%s is not plain", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,6}[mhdsw][0-9]{0,5}[mhd]?[0-9a-z-]{0,3}`).Draw(t, "text")
		if plain.MatchString(text) {
			if _, err := lifetime.ParseTTLLabel(text); err != nil {
				t.Fatalf("%q is plain, and %v", text, err)
			}
		}
	})
}

// However many kinds there are, an expression stays within what the API server takes.
func TestManyDeletableKinds(t *testing.T) {
	input := &Input{Namespace: "curfew-system", Controller: "curfew-controller"}
	asked := input.mayDelete()
	if strings.Contains(asked, " in [") {
		t.Errorf("got %s where nothing is known", asked)
	}
	for i := range 5000 {
		kind := discovery.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com"}, Resource: fmt.Sprintf("things%d", i)}
		input.Places = append(input.Places, discovery.Place{Kind: kind, Namespaces: []string{""}})
	}
	got := input.mayDelete()
	if len(got) > maxDeletable+1000 || !strings.Contains(got, `"things0.example.com"`) || strings.Contains(got, `"things4999.example.com"`) || !strings.HasSuffix(got, indent(asked)+")") {
		t.Errorf("got %d characters: %.200s", len(got), got)
	}
}

// The URL, the bundle and the timeout of the static configuration are copied.
func TestTargetIsCopied(t *testing.T) {
	static := staticMutating()
	url := "https://127.0.0.1:9443/mutate"
	static.Webhooks[1].ClientConfig = admissionv1.WebhookClientConfig{URL: &url, CABundle: []byte("other")}
	static.Webhooks[1].TimeoutSeconds = new(int32(2))
	long := staticValidating()
	long.Webhooks[0].TimeoutSeconds = new(int32(30))
	mutating, validating := Configurations(&Input{Kinds: builtinKinds(t), Namespace: "x", FailClosed: true}, static, long)
	if a, b := *mutating.Webhooks[0].FailurePolicy, *validating.Webhooks[0].FailurePolicy; a != admissionv1.Ignore || b != admissionv1.Fail {
		t.Errorf("failure policies %s and %s; want that of the flag for validation alone", a, b)
	}
	if w := mutating.Webhooks[0]; w.ClientConfig.Service != nil || *w.ClientConfig.URL != url || string(w.ClientConfig.CABundle) != "other" || *w.TimeoutSeconds != 2 {
		t.Errorf("%v, timeout %d", w.ClientConfig, *w.TimeoutSeconds)
	}
	if got := *validating.Webhooks[0].TimeoutSeconds; got != 30 {
		t.Errorf("timeout %d, want the 30 of the static configuration", got)
	}
	if got := mutating.OwnerReferences; len(got) != 1 || got[0].UID != "static-m" || got[0].Kind != "MutatingWebhookConfiguration" || got[0].Name != "curfew" || got[0].Controller != nil {
		t.Errorf("owners %v, want the static configuration", got)
	}
}

// condition compiles and evaluates one expression as the API server does.
func condition(t *testing.T, text string, object, old map[string]any) bool {
	t.Helper()
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	matchCondition := &admissionv1.MatchCondition{Name: "a", Expression: text}
	declared := celplugin.OptionalVariableDeclarations{HasAuthorizer: true}
	accessor := (*matchconditions.MatchCondition)(matchCondition)
	if result := celplugin.NewCompiler(env).CompileCELExpression(accessor, declared, environment.NewExpressions); result.Error != nil {
		t.Fatalf("%.500s: %.500s", text, result.Error)
	}
	evaluator := celplugin.NewConditionCompiler(env).CompileCondition([]celplugin.ExpressionAccessor{accessor}, declared, environment.NewExpressions)
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Render"}
	operation := admission.Create
	now := &unstructured.Unstructured{Object: object}
	attributes := &admission.VersionedAttributes{VersionedKind: kind, VersionedObject: admission.NewLazyObject(now)}
	if old != nil {
		operation = admission.Update
		was := &unstructured.Unstructured{Object: old}
		attributes.VersionedOldObject = admission.NewLazyObject(was)
		attributes.Attributes = admission.NewAttributesRecord(now, was, kind, "ns", "a", kind.GroupVersion().WithResource("renders"), "", operation, nil, false, nil)
	} else {
		attributes.Attributes = admission.NewAttributesRecord(now, nil, kind, "ns", "a", kind.GroupVersion().WithResource("renders"), "", operation, nil, false, nil)
	}
	fail := admissionv1.Fail
	result := matchconditions.NewMatcher(evaluator, &fail, "webhook", "a", "b").Match(t.Context(), attributes, nil, nil)
	if result.Error != nil {
		t.Fatalf("%.500s: %.500s", text, result.Error)
	}
	return result.Matches
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	must(t, yaml.Unmarshal([]byte(text), &out))
	return out
}

func profile(t *testing.T, spec string) *v1alpha1.KindProfile {
	t.Helper()
	out := &v1alpha1.KindProfile{}
	must(t, yaml.UnmarshalStrict([]byte("metadata: {name: renders}\nspec: "+spec), out))
	out.Spec.Kind = v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Render", Resource: "renders"}
	return out
}

const state = `state: {finished: "false", finishTime: "null", outcome: "'Failed'"}`

// Names of fields need not be identifiers, and some identifiers are words of CEL.
func TestOddFieldNames(t *testing.T) {
	names := []string{"keep-for", "in", "namespace", "$ref", "a/b", `quo"te`, `back\slash`, "ünïcode", "0", "true", "_x", "type", "size"}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			kindProfile := profile(t, "{"+state+"}")
			ttl := v1alpha1.FieldPath("spec." + name)
			kindProfile.Spec.Fields = &v1alpha1.NativeFields{TTL: &ttl}
			kindProfile.Spec.PodTemplates = []v1alpha1.FieldPath{v1alpha1.FieldPath("spec.list[*]." + name)}
			p := compiled(t, kindProfile)[0]
			s := newKind(&platform.SnapshotOf([]*expression.Profile{p}, []expression.Definition{unknown(p)}).Served()[0], false)
			with := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{name: int64(5)}}
			without := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{name + "x": int64(5)}}
			template := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"list": []any{map[string]any{name: map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"curfew.dev/ttl": "1h"}}}}}}}
			if !condition(t, s.touched(), with, nil) || condition(t, s.touched(), without, nil) || !condition(t, s.touched(), template, nil) {
				t.Errorf("not found, or found where it is not: %s", s.touched())
			}
			if !condition(t, s.touched(), with, without) || condition(t, s.touched(), with, with) || !condition(t, s.touched(), without, template) {
				t.Errorf("change not seen, or seen where there is none: %s", s.touched())
			}
		})
	}
}

// Where a schema says nothing, whatever stands there must not make an expression fail.
func TestNoShapeFails(t *testing.T) {
	p := compiled(t, profile(t, "{"+state+`, fields: {ttl: spec.ttl.seconds}, podTemplates: ["spec.stages[*].template", "spec.nested[*].inner[*]", spec.template]}`))[0]
	s := newKind(&platform.SnapshotOf([]*expression.Profile{p}, []expression.Definition{unknown(p)}).Served()[0], false)
	for _, text := range []string{
		"{}", "{spec: 5}", "{spec: null}", "{spec: text}", "{spec: {ttl: 7, stages: 3, template: 8}}", "{spec: {stages: {a: b}}}", "{spec: {stages: [1, null, a, {}]}}",
		"{spec: {stages: [{template: 5}, {template: {metadata: 4}}, {template: {metadata: {annotations: 3, labels: [1]}}}]}}",
		"{spec: {stages: [{template: {metadata: {annotations: [curfew.dev/ttl]}}}]}}", "{spec: {nested: [{inner: 5}, {inner: {a: b}}, {inner: [1, {metadata: x}]}, 7]}}",
	} {
		if condition(t, s.touched(), object(t, text), nil) {
			t.Errorf("%s concerns Curfew", text)
		}
		for _, other := range []string{"{}", "{spec: {stages: [{}]}}"} {
			condition(t, s.touched(), object(t, text), object(t, other))
		}
	}
	if !condition(t, s.touched(), object(t, "{spec: {nested: [{inner: 5}, {inner: [1, {metadata: {labels: {curfew.dev/ttl: 1h}}}]}]}}"), nil) {
		t.Error("a key in a list of lists is not found beside what has another shape")
	}
}

// A profile of many paths must not keep the API server busy: it compiles each expression again
// whenever the configuration changes. (A chain of optFlatMap took it ten minutes and more for an
// ordinary profile.) The largest profile that the schema lets through gets conditions that ask less
// and send more.
func TestLargeProfilesCompileQuickly(t *testing.T) {
	for name, test := range map[string]struct {
		paths  int
		coarse bool
	}{"large": {3, false}, "largest": {32, true}} {
		t.Run(name, func(t *testing.T) {
			kindProfile := profile(t, "{"+state+", fields: {ttl: spec.a.b.c.d.e.f.ttl}}")
			for i := range test.paths {
				kindProfile.Spec.PodTemplates = append(kindProfile.Spec.PodTemplates,
					v1alpha1.FieldPath(fmt.Sprintf("spec.p%d.q[*].r.s[*].t.u[*].template", i)), v1alpha1.FieldPath(fmt.Sprintf("spec.o%d.template", i)))
				kindProfile.Spec.Templates = append(kindProfile.Spec.Templates, v1alpha1.ObjectTemplate{Path: v1alpha1.FieldPath(fmt.Sprintf("spec.t%d[*].template", i)), Kind: v1alpha1.GroupKind{Group: "example.com", Kind: "Other"}})
				kindProfile.Spec.ForbiddenFields = append(kindProfile.Spec.ForbiddenFields, v1alpha1.ForbiddenField{Path: v1alpha1.FieldPath(fmt.Sprintf("spec.f%d[*].u.v.w", i)), Reason: "r"})
			}
			p := compiled(t, kindProfile)[0]
			s := newKind(&platform.SnapshotOf([]*expression.Profile{p}, []expression.Definition{unknown(p)}).Served()[0], false)
			begin := time.Now()
			bare, other := object(t, "{spec: {}}"), object(t, "{metadata: {generation: 2}, spec: {replicas: 1}}")
			if got := condition(t, s.touched(), bare, nil); got != test.coarse {
				t.Errorf("a plain object is sent: %t, want %t", got, test.coarse)
			}
			if got := condition(t, s.touched(), bare, other); got != test.coarse {
				t.Errorf("an update of something else is sent: %t, want %t", got, test.coarse)
			}
			if condition(t, s.touched(), bare, object(t, "{spec: {}, status: {phase: a}}")) {
				t.Error("an update of the status is sent")
			}
			if !condition(t, s.touched(), bare, object(t, "{metadata: {generation: 2}, spec: {o1: {template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}}}")) {
				t.Error("a changed template is not sent")
			}
			if !condition(t, s.touched(), object(t, "{spec: {f1: [{u: {v: {w: 1}}}]}}"), nil) {
				t.Error("a forbidden field is not sent")
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("took %s", took)
			}
			t.Logf("%d and %d characters, %s", len(s.touched()), len(s.touched()), time.Since(begin))
		})
	}
}
