package manifests

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/policy/wellknown"
)

// stuffing fills every map of annotations and labels that a kind has with n keys, and every list of
// owners and templates with items.
type stuffing struct{ keys, items int }

func (s stuffing) metadata(value string) map[string]any {
	annotations, labels := map[string]any{}, map[string]any{}
	for i := range s.keys {
		annotations[fmt.Sprintf("k%d", i)], labels[fmt.Sprintf("k%d", i)] = value, value
	}
	owners := make([]any, s.items)
	for i := range owners {
		owners[i] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
	}
	return map[string]any{"name": "a", "annotations": annotations, "labels": labels, "ownerReferences": owners}
}

func (s stuffing) list(item any) []any { return slices.Repeat([]any{item}, s.items) }

// object has the shapes of all kinds at once: templates where Jobs, CronJobs, JobSets, runtimes and
// others have them.
func (s stuffing) object(value string) map[string]any {
	template := map[string]any{"metadata": s.metadata(value), "spec": map[string]any{}}
	job := map[string]any{"metadata": template["metadata"], "spec": map[string]any{"template": template}}
	jobs := s.list(map[string]any{"name": "a", "template": job})
	return map[string]any{"metadata": template["metadata"], "template": template, "spec": map[string]any{
		"template":        map[string]any{"metadata": template["metadata"], "spec": map[string]any{"replicatedJobs": jobs, "template": template}},
		"jobTemplate":     job,
		"replicatedJobs":  jobs,
		"tasks":           jobs,
		"templates":       s.list(template),
		"components":      jobs,
		"runtimePatches":  s.list(map[string]any{"trainingRuntimeSpec": map[string]any{"template": map[string]any{"metadata": template["metadata"], "spec": map[string]any{"replicatedJobs": jobs}}}}),
		"unknown":         jobs,
		"workerSpecs":     jobs,
		"annotations":     template["metadata"].(map[string]any)["annotations"],
		"labels":          template["metadata"].(map[string]any)["labels"],
		"workerGroupSpec": jobs,
	}}
}

// cost is what the API server reckons for all conditions of a webhook together.
func cost(t *testing.T, evaluator celplugin.ConditionEvaluator, kind schema.GroupVersionKind, resource schema.GroupVersionResource, sub string, operation admission.Operation, object, old map[string]any) int64 {
	t.Helper()
	unstructuredOf := func(content map[string]any) runtime.Object {
		if content == nil {
			return nil
		}
		out := &unstructured.Unstructured{Object: content}
		return out
	}
	now, was := unstructuredOf(object), unstructuredOf(old)
	attributes := &admission.VersionedAttributes{
		Attributes:    admission.NewAttributesRecord(now, was, kind, "team", "a", resource, sub, operation, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "system:serviceaccount:ci:bot"}),
		VersionedKind: kind, VersionedObject: admission.NewLazyObject(now), VersionedOldObject: admission.NewLazyObject(was),
	}
	yes := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	const budget = int64(math.MaxInt64)
	results, left, err := evaluator.ForInput(t.Context(), attributes, celplugin.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind)),
		celplugin.OptionalVariableBindings{Authorizer: yes}, nil, budget)
	must(t, err)
	for _, result := range results {
		if result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	return budget - left
}

// TestConditionsCostTheSameWhateverAnObjectHolds: the API server skips a webhook whose conditions
// cost too much (S9), and what they cost is paid in namespaces that do not use Curfew, too.
func TestConditionsCostTheSameWhateverAnObjectHolds(t *testing.T) {
	entries := coveredWith(t, &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller", Alias: true},
		"{metadata: {name: a}, spec: {match: {kinds: [{group: batch, kind: '*'}, {group: apps, kind: Deployment}, {kind: Pod}], objectSelector: {matchLabels: {app: x}}}, defaults: {ttl: {value: 1d}, ttlLabel: {value: 7d}}, bounds: {maxDeadline: 1h, maxTTL: 7d}}}",
		"{metadata: {name: b}, spec: {match: {kinds: [{group: jobset.x-k8s.io, kind: '*'}]}, defaults: {ttl: {value: 1d}}, bounds: {maxDeadline: 1h}}}")
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	small, full, large := stuffing{10, 0}, stuffing{64, 32}, stuffing{80000, 2000}
	created := map[stuffing]map[string]any{small: small.object("a"), full: full.object("a"), large: large.object("a")}
	changed := map[stuffing]map[string]any{small: small.object("b"), full: full.object("b"), large: large.object("b")}
	for _, w := range entries {
		evaluator := compile(t, w, env)
		for _, rule := range w.rules {
			for _, resource := range rule.Resources {
				resource, sub, _ := strings.Cut(resource, "/")
				kind := schema.GroupVersionKind{Group: rule.APIGroups[0], Version: rule.APIVersions[0], Kind: kindOf(rule.APIGroups[0], resource)}
				for _, operation := range rule.Operations {
					if sub != "" && operation == admissionv1.Create && sub != "binding" {
						continue
					}
					costs := map[stuffing]int64{}
					for _, stuffed := range []stuffing{small, full, large} {
						labels := created[stuffed]["metadata"].(map[string]any)["labels"].(map[string]any)
						delete(labels, wellknown.LabelTTL)
						delete(labels, wellknown.LabelKyvernoTTL)
						if strings.HasPrefix(w.name, "validate-labels") { // selected by its label, which is new
							labels[wellknown.LabelTTL], labels[wellknown.LabelKyvernoTTL] = "1h", "1h"
						}
						var old map[string]any
						if operation == admissionv1.Update {
							old = changed[stuffed]
						}
						costs[stuffed] = cost(t, evaluator, kind, kind.GroupVersion().WithResource(resource), sub, admission.Operation(operation), created[stuffed], old)
					}
					what := fmt.Sprintf("%s %s, %s %s/%s", w.config, w.name, operation, resource, sub)
					switch {
					// Items of lists are looked at up to a limit, and keys of Namespaces are searched up to one.
					case costs[large] > costs[full]:
						t.Errorf("%s: costs %d with %v and %d with %v", what, costs[full], full, costs[large], large)
					// Each question to the authorizer counts as 350000.
					case costs[full] > 800000, costs[full] > 100000 && !strings.HasPrefix(w.name, "validate-labels"):
						t.Errorf("%s: costs %d of the 1000000 at which the API server gives up", what, costs[full])
					}
				}
			}
		}
	}
}

// kindOf is the kind of a resource in rules; rules for any have one of their own.
func kindOf(group, resource string) string {
	for _, kind := range kinds {
		if kind.Group == group && strings.EqualFold(kind.Kind+"s", resource) {
			return kind.Kind
		}
	}
	return "Thing"
}

// TestEveryKeyIsSent: the key lists of the static configurations are written by hand.
func TestEveryKeyIsSent(t *testing.T) {
	rows := map[string]request{}
	for _, where := range []string{"annotations", "labels"} {
		for _, key := range wellknown.ObjectKeys {
			with := fmt.Sprintf("{metadata: {name: a, %s: {%s: x}}}", where, key)
			for resource, wants := range map[string]string{"jobs": jobMarked, "pods": podMarked, "cronjobs": "- validate-marked.curfew.dev", "deployments": "- templates.curfew.dev",
				"bindings": "- bindings.curfew.dev", "namespaces": "- namespaces.curfew.dev", "jobsets": "defaults-marked.kinds.curfew.dev validate-marked.jobsets.jobset.x-k8s.io.curfew.dev"} {
				if resource == "namespaces" && slices.Contains(wellknown.NamespaceKeys, key) {
					continue
				}
				rows[resource+" with "+where+" "+key] = request{resource: resource, new: with, wants: wants}
			}
			rows["Job template with "+where+" "+key] = request{resource: "cronjobs", wants: "- validate-marked.curfew.dev", new: fmt.Sprintf("{spec: {jobTemplate: {metadata: {%s: {%s: x}}}}}", where, key)}
		}
		for _, key := range wellknown.TemplateKeys {
			for _, resource := range []string{"deployments", "statefulsets", "daemonsets", "replicasets", "replicationcontrollers"} {
				rows[resource+", template with "+where+" "+key] = request{resource: resource, wants: "- templates.curfew.dev", new: fmt.Sprintf("{spec: {template: {metadata: {%s: {%s: x}}}}}", where, key)}
			}
			rows["PodTemplate with "+where+" "+key] = request{resource: "podtemplates", wants: "- templates.curfew.dev", new: fmt.Sprintf("{template: {metadata: {%s: {%s: x}}}}", where, key)}
		}
		for _, key := range wellknown.NamespaceKeys {
			with := fmt.Sprintf("{metadata: {name: a, %s: {%s: x}}}", where, key)
			rows["Namespace with "+where+" "+key] = request{resource: "namespaces", new: with, wants: "namespaces.curfew.dev namespaces.curfew.dev"}
			rows["Namespace, status takes "+where+" "+key] = request{resource: "namespaces", sub: "status", old: with, new: "{metadata: {name: a}}", wants: "namespaces.curfew.dev namespaces.curfew.dev"}
		}
	}
	evaluate(t, covered(t), rows)
}
