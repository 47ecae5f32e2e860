package expression_test

import (
	"context"
	"testing"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
)

// An expression means the same at admission, which does not decode managedFields, and in the
// controller, which may have them.
func TestExpressionsDoNotSeeManagedFields(t *testing.T) {
	object := func() map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "x", "managedFields": []any{map[string]any{"manager": "kubectl"}}}}
	}
	cached := object()
	variables := &expression.Variables{Object: cached, Runtime: object()}
	for source, want := range map[string]bool{"has(object.metadata.managedFields)": false, "has(runtime.metadata.managedFields)": false, `object.metadata.name == "x" && runtime.metadata.name == "x"`: true} {
		program, err := expression.NewCompiler(4).Compile(source, expression.ScopePolicy, expression.ResultBool)
		must(t, err)
		if have, err := program.Bool(context.Background(), variables); err != nil || have != want {
			t.Errorf("%s: %v, %v; want %v", source, have, err, want)
		}
	}
	if metadata := cached["metadata"].(map[string]any); len(metadata) != 2 {
		t.Errorf("the object itself was changed: %v", cached)
	}
}

// What the namespace says takes the place of the namespace, where that is not given.
func TestNamespacePolicyStandsForTheNamespace(t *testing.T) {
	namespace := resolution.ParseNamespace("ci", map[string]string{"a": "b"}, map[string]string{"env": "test"})
	variables := &expression.Variables{NamespacePolicy: namespace}
	program, err := expression.NewCompiler(4).Compile(
		`namespaceObject.metadata.name == "ci" && namespaceObject.metadata.labels.env == "test" && namespaceObject.metadata.annotations.a == "b" && namespaceObject.kind == "Namespace"`,
		expression.ScopePolicy, expression.ResultBool)
	must(t, err)
	if have, err := program.Bool(context.Background(), variables); err != nil || !have {
		t.Errorf("the expression is %v, error %v; want true", have, err)
	}
}
