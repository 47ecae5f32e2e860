package lint

import "context"

// addRuntime applies a runtime to the objects that use it.
func addRuntime(w *world, document *Document) {
	facts := w.factsOf(context.Background(), document, document.Object)
	w.runtimes[runtimeKey{document.Kind().GroupKind(), facts.Namespace, facts.Name}] = runtimeAnswer{object: document.Object, posted: true}
}
