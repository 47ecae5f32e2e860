package lint

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// learnNamespace lets a Namespace speak for the objects of the other documents. Of two with the same name the later one holds, as
// after applying both.
func learnNamespace(_ context.Context, w *world, document *Document) {
	facts := policy.FactsOfObject(&policy.Profile{Kind: document.Kind()}, document.Object)
	w.namespaces[facts.Name] = namespaceAnswer{policy: asServed(policy.ParseNamespace(facts.Name, facts.Annotations, facts.Labels))}
}

// asServed has the label with its name, which the API server puts on a namespace.
func asServed(namespace *policy.NamespacePolicy) *policy.NamespacePolicy {
	out := *namespace
	out.Labels = maps.Clone(namespace.Labels)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[corev1.LabelMetadataName] = namespace.Name
	return &out
}
