package wellknown

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// A key that is in no list is looked up by no match condition, so that admission does not see it.
func TestEveryKeyIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	constants := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		switch name := spec.Names[0].Name; name {
		case "ObjectKeys", "NamespaceKeys", "NamespaceAnnotations":
			ast.Inspect(spec.Values[0], func(node ast.Node) bool {
				if ident, ok := node.(*ast.Ident); ok {
					listed = append(listed, ident.Name)
				}
				return true
			})
		}
		return true
	})
	// Keys of other objects, ClusterRoles and Events, which are not reviewed, and keys that the
	// controller writes on Pods that a PodTally counts and on objects that it suspends: admission must
	// not see each of these writes.
	listed = append(listed, "LabelAggregate", "LabelFeature", "AnnotationDeleted", "AnnotationCountedBy", "FinalizerTally", "AnnotationSuspendedAt")
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		sum, ok := spec.Values[0].(*ast.BinaryExpr)
		if !ok {
			return true
		}
		if prefix, ok := sum.X.(*ast.Ident); !ok || prefix.Name != "Prefix" {
			return true
		}
		constants++
		if name := spec.Names[0].Name; !slices.Contains(listed, name) {
			t.Errorf("%s is neither in ObjectKeys nor in NamespaceKeys", name)
		}
		return true
	})
	if constants < 20 {
		t.Errorf("%d keys in keys.go: the test does not find them", constants)
	}
	for _, key := range slices.Concat(ObjectKeys, NamespaceKeys) {
		if !strings.HasPrefix(key, Prefix) && key != LabelMultiKueueOrigin {
			t.Errorf("%s is not a key of Curfew's", key)
		}
	}
}
