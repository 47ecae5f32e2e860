package lint

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// addNamespace applies a Namespace to the objects of the other documents. Of two with the same name
// the later one counts, as after applying both.
func addNamespace(_ context.Context, w *world, document *Document) {
	facts := policy.FactsOfObject(&policy.Profile{Kind: document.Kind()}, document.Object)
	w.namespaces[facts.Name] = namespaceAnswer{policy: asServed(policy.ParseNamespace(facts.Name, facts.Annotations, facts.Labels))}
}

// asServed adds the label with the name, as the API server does.
func asServed(namespace *policy.NamespacePolicy) *policy.NamespacePolicy {
	out := *namespace
	out.Labels = maps.Clone(namespace.Labels)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[corev1.LabelMetadataName] = namespace.Name
	return &out
}
