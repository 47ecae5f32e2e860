package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// TestFieldsOfRulesAreSent violates every rule in every field that it declares, on every built-in
// kind that has the field, in the smallest object that does. Wherever the rule fires, the match
// conditions and selectors have to send the object to the webhook: else the rule never fires in a
// cluster. The other way around, a rule fires only on fields that it declares.
func TestFieldsOfRulesAreSent(t *testing.T) {
	s := sweep{T: t, rules: map[string]rules.Rule{}, fired: map[string]bool{}, sent: map[string]bool{}, complaints: map[string]bool{}, compiled: map[string]celplugin.ConditionEvaluator{}}
	kinds := sweptKinds(t)
	for _, rule := range rules.All() {
		s.rules[rule.Name] = rule
	}
	for _, stage := range stages(t) {
		for _, kind := range kinds {
			s.kind(stage, kind)
		}
	}
	for _, rule := range rules.All() {
		for _, field := range slices.Concat(rule.Fields, rule.InUse) {
			if !s.fired[rule.Name+" "+field] {
				t.Errorf("rule %s declares field %q, and no object of the sweep violates it there", rule.Name, field)
			}
		}
	}
}

// stage is a cluster in which objects are violated: its webhooks, one namespace and one policy.
type stage struct {
	name      string
	entries   []webhook
	namespace map[string]string
	policies  []*expression.Policy
}

func stages(t *testing.T) []stage {
	t.Helper()
	const bounding = `{metadata: {name: a}, spec: {defaults: {ttl: {value: 30m}}, bounds: {minTTL: 10m, maxTTL: 1h, minDeadline: 10m, maxDeadline: 1h, protect: Deny}}}`
	lifecyclePolicy := &v1alpha1.LifecyclePolicy{}
	must(t, yaml.UnmarshalStrict([]byte(bounding), lifecyclePolicy))
	compiled, errs := expression.NewCompiler(expression.DefaultCacheSize).Policy(lifecyclePolicy)
	must(t, errs.ToAggregate())
	plain := sweptEntries(t)
	return []stage{
		{name: "plain", entries: plain},
		{name: "namespace", entries: plain, namespace: map[string]string{wellknown.AnnotationDefaultTTL: "?", wellknown.AnnotationDefaultPodTTL: "?",
			wellknown.AnnotationMinTTL: "10m", wellknown.AnnotationMaxTTL: "1h", wellknown.AnnotationMinDeadline: "10m", wellknown.AnnotationMaxDeadline: "1h"}},
		{name: "policy", entries: sweptEntries(t, bounding), policies: []*expression.Policy{compiled}},
	}
}

func sweptEntries(t *testing.T, policies ...string) []webhook {
	t.Helper()
	return coveredWith(t, &webhookconfig.Input{Kinds: served(t, invented(t)), Namespace: "curfew-system", Controller: "curfew-controller", Alias: true}, policies...)
}

type sweep struct {
	*testing.T
	fired, sent, complaints map[string]bool
	rules                   map[string]rules.Rule
	compiled                map[string]celplugin.ConditionEvaluator
}

// kind violates the rules with objects of one kind: new ones, and ones to which the field is added
// or from which it is removed.
func (s *sweep) kind(stage stage, kind sweptKind) {
	besides := kind.besides()
	if stage.name == "policy" {
		besides = besides[:1]
	}
	for _, beside := range besides {
		base := func() map[string]any {
			apiVersion, name := kind.Kind.ToAPIVersionAndKind()
			object := map[string]any{"apiVersion": apiVersion, "kind": name, "metadata": map[string]any{"name": "a", "creationTimestamp": "2026-12-24T00:00:00Z"}}
			if !kind.ClusterScoped {
				set(object, fieldpath.FieldPath{"metadata", "namespace"}, "ci")
			}
			if kind.runtime != nil {
				set(object, kind.runtime, "torch")
			}
			beside(object)
			return object
		}
		s.review(stage, kind, nil, base())
		for _, site := range kind.sites() {
			for i, value := range site.values {
				object := base()
				set(object, site.path, value)
				s.review(stage, kind, nil, object)
				if i == 0 {
					s.review(stage, kind, base(), object)
					s.review(stage, kind, object, base())
				}
			}
		}
	}
}

// review asks the rules about one request, and the webhooks about what some rule finds fault with.
func (s *sweep) review(stage stage, kind sweptKind, old, object map[string]any) {
	s.Helper()
	runtimes := []*resolution.RuntimePolicy{nil}
	if kind.runtime != nil {
		hour := &lifetime.Setting{Path: policy.AnnotationPath(wellknown.AnnotationTTL), Text: "2h", TTL: lifetime.TTL{After: 2 * time.Hour}}
		runtimes = append(runtimes, &resolution.RuntimePolicy{Name: "torch", Path: kind.runtime.String(), TTL: lifetime.TTLSet{All: hour}},
			&resolution.RuntimePolicy{Name: "torch", Path: kind.runtime.String(), Missing: true})
	}
	for _, runtime := range runtimes {
		for _, finding := range rules.Review(s.request(stage, kind, runtime, old, object)).Findings {
			rule, names := s.rules[finding.Rule], fieldNames(kind, finding.Field)
			declared := func(fields []string) bool {
				i := slices.IndexFunc(fields, func(field string) bool { return slices.Contains(names, field) })
				if i >= 0 {
					s.fired[rule.Name+" "+fields[i]] = true
				}
				return i >= 0
			}
			always := declared(rule.Fields)
			if !always && declared(rule.Beside) {
				continue
			}
			if !always && !declared(rule.InUse) {
				s.Fatalf("rule %s fires on %s of a %s, which it does not declare: add one of %q to its Fields", rule.Name, finding.Field, kind.Kind.Kind, names)
			}
			// In the stage with a policy no default reaches an object that a controller owns.
			inUse := stage.name == "namespace" && !kind.ClusterScoped || stage.name == "policy" && finding.Rule != "unusable-runtime"
			if (always || inUse) && !s.called(stage, kind, old, object) {
				s.unsent(fmt.Sprintf("stage %s: rule %s fires on %s of a %s, and no match condition sends the request", stage.name, rule.Name, finding.Field, kind.Kind.Kind), old, object)
			}
		}
	}
}

// unsent reports one example of each complaint.
func (s *sweep) unsent(complaint string, old, object map[string]any) {
	if s.complaints[complaint] {
		return
	}
	s.complaints[complaint] = true
	text, err := json.Marshal(map[string]any{"old": old, "new": object})
	if err != nil {
		s.Fatal(err)
	}
	s.Errorf("%s: %s", complaint, text)
}

func (s *sweep) request(stage stage, kind sweptKind, runtime *resolution.RuntimePolicy, old, object map[string]any) *rules.Request {
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	r := &rules.Request{Operation: rules.Create, Object: object, Old: old, Facts: policy.FactsOfObject(kind.Profile, object), Now: now,
		User: rules.User{Name: "jane"}, Options: rules.Options{KyvernoLabel: true}, Access: rules.Access{User: rules.No, Controller: rules.No}}
	if old != nil {
		r.Operation, r.OldFacts = rules.Update, policy.FactsOfObject(kind.Profile, old)
	}
	r.Scope = &resolution.Scope{Runtime: runtime, Creating: old == nil}
	if !kind.ClusterScoped {
		r.Scope.Namespace = resolution.ParseNamespace("ci", stage.namespace, nil)
	}
	r.Scope.Policies, _ = expression.Matching(s.Context(), stage.policies, r.Facts, &expression.Variables{Object: object, NamespacePolicy: r.Scope.Namespace})
	effective := resolution.Resolve(r.Facts, r.Scope)
	r.Effective = &effective
	return r
}

func (s *sweep) called(stage stage, kind sweptKind, old, object map[string]any) bool {
	key, err := json.Marshal([]any{stage.name, old, object})
	if err != nil {
		s.Fatal(err)
	}
	if sent, ok := s.sent[string(key)]; ok {
		return sent
	}
	namespace := labels.Set{"kubernetes.io/metadata.name": "ci"}
	stamp := resolution.StampNamespace(stage.namespace, false, time.Now())
	for key, value := range map[string]string{wellknown.LabelInUse: stamp.InUse, wellknown.LabelPodsInUse: stamp.PodsInUse} {
		if value != "" {
			namespace[key] = value
		}
	}
	if kind.Kind.Kind == "Namespace" {
		namespace = labels.Set{"kubernetes.io/metadata.name": "a"}
		maps.Copy(namespace, policy.FactsOfObject(kind.Profile, object).Labels)
	}
	s.sent[string(key)] = called(s.T, stage.entries, s.compiled, old, object, namespace)
	return s.sent[string(key)]
}

var curfewKey = regexp.MustCompile(`\[(curfew\.dev/[^\]]*)\]$`)

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// fieldNames are the names by which rules may declare the field of a finding.
func fieldNames(kind sweptKind, field string) []string {
	field = listIndex.ReplaceAllString(field, "[*]")
	out := []string{strings.TrimPrefix(field, "metadata.")}
	if kind.runtime != nil && field == kind.runtime.String() {
		out = append(out, rules.RuntimeReference)
	}
	for _, path := range kind.Inherited() {
		if rest, ok := strings.CutPrefix(field, path.String()+"."); ok {
			name := rules.InInherited
			if !kind.typed && slices.Contains(path, "ephemeral") {
				name = "claim template "
			}
			out = append(out, name+rest)
		}
	}
	for _, path := range kind.PodTemplates {
		if rest, ok := strings.CutPrefix(field, path.String()+"."); ok {
			out = append(out, rules.InPodTemplate+strings.TrimPrefix(rest, "metadata."))
		}
	}
	for _, forbidden := range kind.Forbidden {
		if field == forbidden.Path.String() {
			out = append(out, rules.ForbiddenField)
		}
	}
	for _, template := range kind.Templates {
		if rest, ok := strings.CutPrefix(field, template.Path.String()+"."); ok {
			out = append(out, fieldNames(sweptKind{Profile: template.Profile}, rest)...)
		}
	}
	if key := curfewKey.FindStringSubmatch(field); key != nil && !policy.Known(key[1]) {
		out = append(out, rules.UnknownKey)
		if kind.Kind.Kind == "Namespace" {
			out = append(out, rules.UnknownNamespaceKey)
		}
	}
	switch field {
	case kind.TTL.String(), kind.TTLSucceeded.String(), kind.TTLFailed.String():
		out = append(out, rules.NativeTTL)
	case kind.Deadline.String():
		out = append(out, rules.NativeDeadline)
	}
	return out
}

// called reports whether a validating webhook is called for a request of a user who may not delete the
// object.
func called(t *testing.T, entries []webhook, compiled map[string]celplugin.ConditionEvaluator, old, now map[string]any, namespace labels.Set) bool {
	t.Helper()
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(now)}
	kind := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind})
	if kind.Kind == "Sandbox" { // The guess is sandboxs.
		plural.Resource = "sandboxes"
	}
	operation, text := admission.Create, object.GetNamespace()
	var before runtime.Object
	if old != nil {
		was := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(old)}
		operation, before = admission.Update, was
		if kind.Group == wellknown.Group { // Where the spec differs the API server has raised the generation.
			was.SetGeneration(1)
			object.SetGeneration(2)
		}
	}
	if kind.Kind == "Namespace" {
		text = object.GetName()
	}
	const name = "kubernetes-admin"
	attributes := &admission.VersionedAttributes{
		Attributes:    admission.NewAttributesRecord(object, before, kind, text, object.GetName(), plural, "", operation, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: name}),
		VersionedKind: kind, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(before),
	}
	return slices.ContainsFunc(entries, func(w webhook) bool {
		if w.config != "validating" || !w.selects(t, attributes, namespace) {
			return false
		}
		text, err := json.Marshal(w.conditions)
		must(t, err)
		if compiled[string(text)] == nil {
			compiled[string(text)] = compile(t, w, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}
		return w.matches(t, attributes, compiled[string(text)], name)
	})
}
