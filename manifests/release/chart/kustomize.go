package chart

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// component is one of manifests/components, and the condition under which the chart has it.
type component struct{ name, when string }

// components are all that the chart knows.
var components = []component{
	{"cert-manager", `eq .Values.certificates "cert-manager"`},
	{"delete-anything", ".Values.deleteAnything"},
	{"fail-closed", ".Values.failClosed"},
	{"high-availability", ".Values.highAvailability"},
	{"http-api", ".Values.httpAPI"},
	{"leave-native-ttl", ".Values.leaveNativeTTL"},
	{"monitoring", ".Values.monitoring"},
	{"no-builtin-profiles", "not .Values.builtinProfiles"},
	{"precreated-webhooks", ".Values.precreatedWebhooks"},
	{"tenant-view", ".Values.tenantView"},
}

// object is a manifest.
type object = map[string]any

// Kustomize builds manifests/base with components, as `kubectl kustomize` does.
func Kustomize(root string, components ...string) ([]byte, error) {
	overlay := "resources:\n- base\n"
	if len(components) > 0 {
		overlay += "components:\n"
	}
	for _, name := range components {
		overlay += "- components/" + name + "\n"
	}
	disk := &overlaid{FileSystem: filesys.MakeFsOnDisk(), file: filepath.Join(root, "manifests", "kustomization.yaml"),
		content: []byte(overlay)}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, filepath.Join(root, "manifests"))
	if err != nil {
		return nil, fmt.Errorf("build manifests/base with %v: %w", components, err)
	}
	return built.AsYaml()
}

// overlaid is a file system with one file more.
type overlaid struct {
	filesys.FileSystem
	file    string
	content []byte
}

func (o *overlaid) is(path string) bool {
	absolute, err := filepath.Abs(path)
	file, fileErr := filepath.Abs(o.file)
	return err == nil && fileErr == nil && absolute == file
}

// CleanedAbs implements [filesys.FileSystem].
func (o *overlaid) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	if !o.is(path) {
		return o.FileSystem.CleanedAbs(path)
	}
	dir, _, err := o.FileSystem.CleanedAbs(filepath.Dir(o.file))
	return dir, filepath.Base(o.file), err
}

// Exists implements [filesys.FileSystem].
func (o *overlaid) Exists(path string) bool { return o.is(path) || o.FileSystem.Exists(path) }

// ReadFile implements [filesys.FileSystem].
func (o *overlaid) ReadFile(path string) ([]byte, error) {
	if o.is(path) {
		return o.content, nil
	}
	return o.FileSystem.ReadFile(path)
}

// decode reads YAML documents, in order.
func decode(data []byte) ([]object, error) {
	var out []object
	for decoder := yaml.NewDecoder(strings.NewReader(string(data))); ; {
		var next object
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if next != nil {
			out = append(out, next)
		}
	}
}

func build(root string, components ...string) ([]object, error) {
	data, err := Kustomize(root, components...)
	if err != nil {
		return nil, err
	}
	return decode(data)
}

// id tells objects apart, and is the name of an object's template.
func id(o object) string {
	metadata, _ := o["metadata"].(object)
	kind, _ := o["kind"].(string)
	name, _ := metadata["name"].(string)
	return strings.ToLower(kind) + "-" + name
}
