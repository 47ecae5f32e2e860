package manifests

import (
	"io/fs"
	"os"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestFailClosed: with the component every validating webhook fails closed, the controller's own included, and no mutating one does.
func TestFailClosed(t *testing.T) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return files.WriteFile("/manifests/"+path, data)
	})
	if err != nil {
		t.Fatal(err)
	}
	overlay := "resources: [../../base]\ncomponents: [../../components/fail-closed]\n"
	if err := files.WriteFile("/manifests/overlays/mine/kustomization.yaml", []byte(overlay)); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/manifests/overlays/mine")
	if err != nil {
		t.Fatal(err)
	}
	data, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, "overlay", data)
	if base := build(t, "base"); len(webhooks(t, objects)) != len(webhooks(t, base)) {
		t.Errorf("%d webhooks, %d in the base: the component has a name that is gone", len(webhooks(t, objects)), len(webhooks(t, base)))
	}
	for _, w := range webhooks(t, objects) {
		if closed := *w.failure == admissionv1.Fail; closed != (w.config == "validating") {
			t.Errorf("%s %s: failurePolicy %s", w.config, w.name, *w.failure)
		}
	}
	for _, d := range only[*appsv1.Deployment](objects) {
		if d.Name == "curfew-controller" && !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--fail-closed") {
			t.Error("the controller's own webhooks stay open")
		}
	}
}
