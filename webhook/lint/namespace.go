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
// after applying both. The label with its name is put on it by the API server.
func learnNamespace(_ context.Context, w *world, document *Document) {
	facts := policy.FactsOfObject(&policy.Profile{Kind: document.Kind()}, document.Object)
	labels := maps.Clone(facts.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = facts.Name
	w.namespaces[facts.Name] = namespaceAnswer{policy.ParseNamespace(facts.Name, facts.Annotations, labels), true}
}
