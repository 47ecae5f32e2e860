package docs_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestInstallShowsAllThatIsApplied: the listing of what kubectl apply creates is that of the
// manifests, in their order.
func TestInstallShowsAllThatIsApplied(t *testing.T) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root+"/manifests/base")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"$ kubectl apply -k manifests/overlays/mine"}
	for _, one := range resources.Resources() {
		kind := strings.ToLower(one.GetKind())
		if group := one.GetGvk().Group; group != "" {
			kind += "." + group
		}
		want = append(want, kind+"/"+one.GetName()+" created")
	}
	page, err := os.ReadFile("install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listing, _ := strings.Cut(string(page), "Then apply the overlay:\n\n```console\n")
	listing, _, _ = strings.Cut(listing, "\n```")
	if got, want := listing, strings.Join(want, "\n"); got != want {
		t.Errorf("install.md shows\n%s\nwant\n%s", got, want)
	}
}
