package lint

import (
	"strings"
	"testing"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/test/contexts"
)

// The documents bring all that decides, or the cluster does.
func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, text := range test.Policies {
				texts = append(texts, "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, "+text[1:])
			}
			for _, text := range test.Profiles {
				texts = append(texts, "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, "+text[1:])
			}
			for _, text := range []string{test.Namespace, test.Runtime} {
				if text != "" {
					texts = append(texts, text)
				}
			}
			for who, options := range map[string]Options{"documents": offline(t), "cluster": {Source: contexts.Source{Case: test, T: t}, Now: noon}} {
				text := test.Object
				if who == "documents" {
					text = strings.Join(append(texts, test.Object), "\n---\n")
				}
				documents, errs := Read(Input{Data: []byte(text)}, Limits{})
				must(t, errs...)
				linter, err := linterFor(t.Context(), documents, options)
				must(t, err)
				w := linter
				document := documents[len(documents)-1]
				facts := w.factsOf(t.Context(), document, document.Object)
				found, err := platform.ContextOf(t.Context(), source{w, document.Kind().GroupKind()}, platform.Whole(facts, document.Object))
				must(t, err)
				if have := contexts.Render(&found.Scope, len(found.Failures)); have != test.Want {
					t.Errorf("%s: have %s\nwant %s", who, have, test.Want)
				}
			}
		})
	}
}
