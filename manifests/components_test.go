package manifests

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"curfew.dev/curfew/certs"
)

// component is the base with a component, as an overlay builds it.
func component(t *testing.T, name string) []runtime.Object {
	t.Helper()
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() { // The chart has links to folders.
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return files.WriteFile("/manifests/"+path, data)
	})
	must(t, err)
	overlay := "resources: [../../base]\ncomponents: [../../components/" + name + "]\n"
	must(t, files.WriteFile("/manifests/overlays/mine/kustomization.yaml", []byte(overlay)))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/manifests/overlays/mine")
	must(t, err)
	data, err := resources.AsYaml()
	must(t, err)
	return decode(t, "overlay", data)
}

var update = flag.Bool("update", false, "write what each component changes into testdata/components")

// TestComponents: testdata/components has what each component changes in the base, a line for each
// field. Tests beside it are about what changes elsewhere in the code have to fit.
func TestComponents(t *testing.T) {
	folders, err := os.ReadDir("components")
	must(t, err)
	base := fields(t, build(t, "base"))
	for _, folder := range folders {
		if folder.Name() == "monitoring" {
			continue // It has objects of the Prometheus Operator, which package monitoring tests.
		}
		changed, text := fields(t, component(t, folder.Name())), ""
		all := maps.Clone(base)
		maps.Copy(all, changed)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			before, was := base[name]
			after, is := changed[name]
			if was && before != after {
				text += "- " + name + before + "\n"
			}
			if is && before != after {
				text += "+ " + name + after + "\n"
			}
		}
		file := filepath.Join("testdata", "components", folder.Name()+".txt")
		if *update {
			must(t, os.WriteFile(file, []byte(text), 0o600))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if text != string(want) {
			t.Errorf("component %s changes\n%s\nand %s has\n%s", folder.Name(), text, file, want)
		}
	}
}

// fields are the fields of objects, by their paths. An item of a list is called by its name, if it has
// one, and otherwise by its number.
func fields(t *testing.T, objects []runtime.Object) map[string]string {
	t.Helper()
	out := map[string]string{}
	var add func(path string, value any)
	add = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				add(path+"."+key, inner)
			}
		case []any:
			for i, inner := range value {
				key := any(i)
				if item, ok := inner.(map[string]any); ok && item["name"] != nil {
					key = item["name"]
				}
				add(fmt.Sprintf("%s[%v]", path, key), inner)
			}
		default:
			out[path] = fmt.Sprintf(": %v", value)
		}
	}
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		must(t, err)
		metadata := content["metadata"].(map[string]any)
		add(fmt.Sprintf("%v %v", content["kind"], metadata["name"]), content)
	}
	return out
}

// TestNetworkPolicy: the policies of the component admit connections to each port of the Pods, that
// of the HTTP API included.
func TestNetworkPolicy(t *testing.T) {
	admitted := map[string]bool{}
	for _, policy := range only[*networkingv1.NetworkPolicy](component(t, "network-policy")) {
		for _, rule := range policy.Spec.Ingress {
			for _, port := range rule.Ports {
				admitted[policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"]+" "+port.Port.String()] = true
			}
		}
	}
	for _, deployment := range only[*appsv1.Deployment](component(t, "http-api")) {
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			if key := deployment.Spec.Template.Labels["app.kubernetes.io/component"] + " " + port.Name; !admitted[key] {
				t.Errorf("no policy admits connections to port %s", key)
			}
		}
	}
}

// TestCertManager: the certificate of the component is for the names and the Secret that the code
// knows.
func TestCertManager(t *testing.T) {
	for _, c := range only[*cmapi.Certificate](component(t, "cert-manager")) {
		want := certs.ServiceDNSNames("curfew-webhook", c.Namespace)
		if c.Name == "curfew-webhook" && (!slices.Equal(c.Spec.DNSNames[:len(want)], want) || c.Spec.SecretName != certs.DefaultSecretName) {
			t.Errorf("Certificate of %v in %s, want %v in %s", c.Spec.DNSNames, c.Spec.SecretName, want, certs.DefaultSecretName)
		}
	}
}
