package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"curfew.dev/curfew/manifests/pack"
)

// Options describe the chart to make.
type Options struct {
	// Root is the top folder of the repository.
	Root string
	// Out is the folder to write into.
	Out string
	// Repository and Version name the image that the manifests run. The chart has the same version,
	// without the v.
	Repository, Version string
	// Digest is that of the image. Without it the manifests name the image by its version.
	Digest string
	// Created is the time of the files in the archive.
	Created time.Time
	// Runbooks begins the links of alerts to their runbooks, with {version} for the version; empty for
	// no links.
	Runbooks string
}

// Write writes the chart, as a folder and as an archive, and returns the path of the archive.
func Write(o *Options) (string, error) {
	files, err := Files(o)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.Out, "chart", "curfew")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	var packed []pack.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		packed = append(packed, pack.File{Name: "curfew/" + name, Mode: 0o644, Content: files[name]})
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return "", err
		}
	}
	archive, err := pack.TarGz(o.Created.UTC(), packed...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.Out, "curfew-"+number(o.Version)+".tgz")
	return path, os.WriteFile(path, archive, 0o644)
}

// number is a version as Helm has it.
func number(version string) string { return strings.TrimPrefix(version, "v") }

// Files returns the files of the chart, by path.
func Files(o *Options) (map[string][]byte, error) {
	loaded, err := loader.LoadDir(filepath.Join(o.Root, "manifests", "chart")) // It follows links.
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, file := range loaded.Raw {
		files[file.Name] = file.Data
	}
	const image = "repository: curfew\n"
	if bytes.Count(files["values.yaml"], []byte(image)) != 1 {
		return nil, fmt.Errorf("manifests/chart/values.yaml: found no %q to replace", image)
	}
	files["values.yaml"] = bytes.Replace(files["values.yaml"], []byte(image), []byte("repository: "+o.Repository+"\n"), 1)
	files["Chart.yaml"], err = o.metadata(loaded.Metadata)
	return files, err
}

// commands are the first arguments of Curfew's two containers, each in a line of its own.
var commands = regexp.MustCompile(`(?m)^( *)- (?:controller|webhook)\n`)

// InstallYAML is manifests/base in a single file, with the image of a version. With dryRun, both
// Deployments have --dry-run.
func InstallYAML(o *Options, dryRun bool) ([]byte, error) {
	data, err := Kustomize(o.Root)
	if err != nil {
		return nil, err
	}
	const image = "image: curfew:dev\n"
	if !bytes.Contains(data, []byte(image)) {
		return nil, fmt.Errorf("manifests/base: found no %q to replace", image)
	}
	if n := len(commands.FindAll(data, -1)); n != 2 {
		return nil, fmt.Errorf("manifests/base: found %d commands of containers, want 2", n)
	}
	if dryRun {
		data = commands.ReplaceAll(data, []byte("$0$1- --dry-run\n"))
	}
	name := o.Repository + ":" + o.Version
	if o.Digest != "" {
		name += "@" + o.Digest
	}
	return bytes.ReplaceAll(data, []byte(image), []byte("image: "+name+"\n")), nil
}

// object is a manifest.
type object = map[string]any

// Kustomize builds manifests/base with components, as `kubectl kustomize` does.
func Kustomize(root string, components ...string) ([]byte, error) {
	overlay := "resources:\n- base\ncomponents:\n"
	for _, name := range components {
		overlay += "- components/" + name + "\n"
	}
	disk := filesys.MakeFsOnDisk()
	dir, _, err := disk.CleanedAbs(filepath.Join(root, "manifests"))
	if err != nil {
		return nil, err
	}
	return build(&overlaid{disk, dir.Join("kustomization.yaml"), []byte(overlay)}, dir.String())
}

func build(disk filesys.FileSystem, dir string) ([]byte, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, dir)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", dir, err)
	}
	return built.AsYaml()
}

// overlaid is a file system with one file more.
type overlaid struct {
	filesys.FileSystem
	file    string
	content []byte
}

// CleanedAbs implements [filesys.FileSystem].
func (o *overlaid) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	if path != o.file {
		return o.FileSystem.CleanedAbs(path)
	}
	dir, _, err := o.FileSystem.CleanedAbs(filepath.Dir(path))
	return dir, filepath.Base(path), err
}

// Exists implements [filesys.FileSystem].
func (o *overlaid) Exists(path string) bool { return path == o.file || o.FileSystem.Exists(path) }

// ReadFile implements [filesys.FileSystem].
func (o *overlaid) ReadFile(path string) ([]byte, error) {
	if path == o.file {
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
