package manifests

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"curfew.dev/curfew/policy"
)

// TestInstalled: Curfew knows each object of its manifests by its name, unless it is in Curfew's own
// namespace.
func TestInstalled(t *testing.T) {
	folders, err := os.ReadDir("components")
	must(t, err)
	objects := build(t, "base")
	for _, folder := range folders {
		if folder.Name() == "monitoring" { // Its kinds are others, and all in a namespace.
			continue
		}
		objects = append(objects, component(t, folder.Name())...)
	}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().GroupKind()
		named, err := meta.Accessor(object)
		must(t, err)
		if named.GetNamespace() != "curfew-system" && kind.Kind != "Namespace" && !policy.Installed(kind, named.GetName()) {
			t.Errorf("%s %s is not known to be installed", kind, named.GetName())
		}
	}
}
