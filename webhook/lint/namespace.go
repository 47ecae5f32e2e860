package lint

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// learnNamespace makes a Namespace's annotations hold for the objects of the other documents. Of two with the same name the
// later one holds, as after applying both.
func learnNamespace(w *world, document *Document) {
	facts := policy.FactsOfObject(w.profiles.For(document.Kind()), document.Object)
	w.namespaces[facts.Name] = policy.ParseNamespace(facts.Name, facts.Annotations, facts.Labels)
}
