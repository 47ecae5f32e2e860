package lint

import (
	"context"
	"maps"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
)

// Explain explains a document as if it were created now: which level decides what, and what the
// object would be given. The label is that of the document, or a default. It returns false if the
// namespace is not known, so that its settings may change the answer.
func (l *Linter) Explain(ctx context.Context, document *Document) (*policy.Explanation, bool, error) {
	w, options := l.world, l.world.options
	object := maps.Clone(document.Object)
	delete(object, "status") // A create takes none.
	facts := w.factsOf(ctx, document, object)
	facts.Created, facts.Deleting = options.Now, false
	found, err := platform.ContextOf(ctx, source{w, document.Kind().GroupKind()}, platform.Whole(facts, object))
	if err != nil {
		return nil, false, err
	}
	scope := &found.Scope
	scope.Creating, scope.AnnotationsOnly, scope.Off = true, options.AnnotationsOnly, options.Rules.Controller.Off
	scope.Protected = policy.Protects(options.Rules.Controller.Protect, facts.Namespace)
	if label, said := policy.DefaultLabel(facts, scope, options.Now); label != "" {
		labelled := *facts
		labelled.Labels = maps.Clone(facts.Labels)
		if labelled.Labels == nil {
			labelled.Labels = map[string]string{}
		}
		labelled.Labels[policy.LabelTTL] = label
		out := policy.Explain(facts, scope, policy.Question{Now: options.Now, Alias: options.Rules.KyvernoLabel})
		of := policy.Explain(&labelled, scope, policy.Question{Now: options.Now})
		out.Facts, out.LabelKey, out.ByLabel = &labelled, of.LabelKey, of.ByLabel
		out.ByLabel.Source = said.Source
		return out, !found.NamespaceUnknown, nil
	}
	return policy.Explain(facts, scope, policy.Question{Now: options.Now, Alias: options.Rules.KyvernoLabel}), !found.NamespaceUnknown, nil
}
