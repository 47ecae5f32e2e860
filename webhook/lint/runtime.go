package lint

// learnRuntime lets a runtime speak for the objects that use it.
func learnRuntime(w *world, document *Document) {
	facts := w.factsOf(document, document.Object)
	w.runtimes[runtimeKey{document.Kind().GroupKind(), facts.Namespace, facts.Name}] = runtimeAnswer{object: document.Object, posted: true}
}
