package policy

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/fieldpath"
)

// Reference is a field that names an object of a kind.
type Reference struct {
	Kind schema.GroupKind
	Path fieldpath.FieldPath
	// Namespace is the field with the namespace; nil where the object is in the same namespace.
	Namespace fieldpath.FieldPath
}

// Each calls f for each object that an object names, in its own namespace unless the field or the
// value has another one. The author of the object decides both.
func (r *Reference) Each(object map[string]any, f func(namespace, name string)) {
	metadata, _ := object["metadata"].(map[string]any)
	own, _ := metadata["namespace"].(string)
	shared := 0 // The namespace is beside the name, in the same item of each list.
	for shared < len(r.Path)-1 && shared < len(r.Namespace)-1 && r.Path[shared] == r.Namespace[shared] {
		shared++
	}
	r.Path[:shared].Walk(object, func(_ string, value any) {
		beside, _ := value.(map[string]any)
		namespace := own
		if len(r.Namespace) > 0 {
			if found, _ := r.Namespace[shared:].Get(beside); found != nil && found != "" {
				namespace, _ = found.(string)
			}
		}
		r.Path[shared:].Walk(beside, func(_ string, value any) {
			if text, ok := value.(string); ok {
				if where, name, ok := strings.Cut(text, "/"); ok {
					f(where, name)
				} else if text != "" {
					f(namespace, text)
				}
			}
		})
	})
}
