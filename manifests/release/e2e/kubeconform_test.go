package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/harness"
)

// releases are the modules whose OpenAPI document has the schemas of a release, with their sums.
var releases = map[string]string{
	"v1.32.13": "h1:5TGYdZ6YZqdp6h/Rp1vX/4TIoybMPdgv97LCZCtPuNQ=",
	"v1.33.13": "h1:bmH31xUdSzeA5vk0wZAK9MZp11mdLuzUSeKk0qN3hPQ=",
	"v1.34.4":  "h1:Yy6R4QB8C9kJPp25GFqEvX5XQwY5qzKeqD0Xx6oAcmk=",
	"v1.35.4":  "h1:o/8dBC/pHVpYoGV4OAIytAlNPZbdYVTXJHoYvXC4qzM=",
	"v1.36.3":  "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=",
	"v1.37.1":  "h1:LTUzSbp9n0W7649oVKBYfC48zcoD3vCk++1PZQn28q8=",
}

// fields are a JSON schema.
type fields = map[string]any

// TestKubeconform: every object that the chart renders, and the examples in Chart.yaml, have the
// fields of their schemas and no others, on the release of the control plane, whose module compiling
// it has downloaded. With KUBECONFORM=all, on each release.
func TestKubeconform(t *testing.T) {
	texts := documents(t)
	chart, err := files()
	must(t, err)
	var metadata struct{ Annotations map[string]string }
	must(t, yaml.Unmarshal(chart["Chart.yaml"], &metadata))
	var examples []fields
	must(t, yaml.Unmarshal([]byte(metadata.Annotations["artifacthub.io/crdsExamples"]), &examples))
	for _, example := range examples {
		text, err := yaml.Marshal(example)
		must(t, err)
		texts["examples"] += "---\n" + string(text)
	}
	texts["test"] = render(t, harness.Namespace, map[string]any{"testNamespace": "curfew-test"})
	current := controlPlane(t)
	if releases[current] == "" {
		t.Fatalf("the control plane is of %s: add its sum to releases", current)
	}
	for version, sum := range releases {
		if version != current && os.Getenv("KUBECONFORM") != "all" {
			continue
		}
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			builtin(t, version, sum, dir)
			custom(t, dir)
			checker, err := validator.New([]string{dir + "/{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"}, validator.Opts{Strict: true})
			must(t, err)
			for name, want := range map[string]validator.Status{
				"apiVersion: v1\nkind: Pod\nspec: {container: []}":                             validator.Invalid,
				"apiVersion: curfew.dev/v1alpha1\nkind: DeletionPause\nspec: {trigger: [ttl]}": validator.Invalid,
				"apiVersion: curfew.dev/v1\nkind: DeletionPause":                               validator.Error,
			} {
				if got := checker.Validate("", io.NopCloser(strings.NewReader(name))); len(got) != 1 || got[0].Status != want {
					t.Errorf("%s: %+v, want status %d", name, got, want)
				}
			}
			valid := 0
			for name, text := range texts {
				for _, result := range checker.Validate(name, io.NopCloser(strings.NewReader(text))) {
					switch result.Status {
					case validator.Valid:
						valid++
					case validator.Empty:
					default:
						t.Errorf("%s: %v\n%s", name, result.Err, result.Resource.Bytes)
					}
				}
			}
			if valid < 100 {
				t.Errorf("only %d objects", valid)
			}
		})
	}
}

// controlPlane is the release of Kubernetes that test/cluster compiles.
func controlPlane(t *testing.T) string {
	t.Helper()
	other := "kubernetes-" + os.Getenv("KUBERNETES") + ".mod"
	text, err := os.ReadFile(filepath.Join(root, "test", "cluster", other))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(root, "test", "cluster", "go.mod"))
	}
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "\tk8s.io/kubernetes ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

// builtin writes the schemas of Kubernetes' own kinds.
func builtin(t *testing.T, version, sum, dir string) {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GONOSUMDB=k8s.io/kubernetes")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download k8s.io/kubernetes %s: %v\n%s", version, err, out)
	}
	var module struct{ Dir, Sum string }
	must(t, json.Unmarshal(out, &module))
	if module.Sum != sum {
		t.Fatalf("k8s.io/kubernetes %s has the sum %s, want %s", version, module.Sum, sum)
	}
	data, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	must(t, err)
	var document struct{ Definitions map[string]fields }
	must(t, json.Unmarshal(data, &document))
	all := document.Definitions
	all["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = fields{"type": []any{"integer", "string"}}
	all["io.k8s.apimachinery.pkg.api.resource.Quantity"] = fields{"type": []any{"number", "string"}}
	for _, one := range all {
		strict(one)
	}
	for name, one := range all {
		kinds, _ := one["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 {
			continue
		}
		kind := kinds[0].(fields)
		used := map[string]fields{}
		collect(all, used, name)
		writeSchema(t, dir, kind["group"].(string), kind["version"].(string), kind["kind"].(string),
			fields{"$ref": "#/definitions/" + name, "definitions": used})
	}
}

// custom writes the schemas of Curfew's kinds, and of other custom kinds that the chart has.
func custom(t *testing.T, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "manifests", "crd", "curfew.dev_*.yaml"))
	must(t, err)
	for _, peer := range []harness.Peer{harness.CertManagerKinds, harness.PrometheusOperator} {
		more, err := peer.CRDs(t.Context())
		must(t, err)
		paths = append(paths, more...)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		must(t, err)
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema fields }
				}
			}
		}
		must(t, yaml.Unmarshal(data, &crd))
		for _, version := range crd.Spec.Versions {
			strict(version.Schema.OpenAPIV3Schema)
			writeSchema(t, dir, crd.Spec.Group, version.Name, crd.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
		}
	}
}

// writeSchema writes the schema of a kind under the name by which kubeconform looks for it: the
// core group is called like its version.
func writeSchema(t *testing.T, dir, group, version, kind string, of fields) {
	t.Helper()
	if group == "" {
		group = version
	}
	data, err := json.Marshal(of)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, group+"_"+version+"_"+strings.ToLower(kind)+".json"), data, 0o600))
}

// collect adds a definition and all that it refers to.
func collect(all, used map[string]fields, name string) {
	if used[name] != nil {
		return
	}
	used[name] = all[name]
	text, _ := json.Marshal(all[name])
	for _, part := range strings.Split(string(text), `"#/definitions/`)[1:] {
		other, _, _ := strings.Cut(part, `"`)
		collect(all, used, other)
	}
}

// strict refuses fields that a schema does not name, and reads what JSON schema lacks.
func strict(of fields) {
	if of["x-kubernetes-int-or-string"] == true {
		of["type"] = []any{"integer", "string"}
	}
	properties, _ := of["properties"].(fields)
	if properties != nil && of["additionalProperties"] == nil && of["type"] == "object" && of["x-kubernetes-preserve-unknown-fields"] != true {
		of["additionalProperties"] = false
	}
	inner := maps.Clone(properties)
	if inner == nil {
		inner = fields{}
	}
	inner["[items]"], inner["[more]"] = of["items"], of["additionalProperties"]
	for _, one := range inner {
		if one, ok := one.(fields); ok {
			strict(one)
		}
	}
}
