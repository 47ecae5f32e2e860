package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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
	// Created is the time of the files in the archive.
	Created time.Time
	// Runbooks begins the links of alerts to their runbooks, with {version} for the version; empty for
	// no links.
	Runbooks string
}

// minimum is the oldest Kubernetes that the tests run on: docs/install.md has the table.
const minimum = ">=1.32.0-0"

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
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return "", err
		}
	}
	archive, err := pack(files, o.Created)
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
	files := map[string][]byte{}
	templates, err := templates(o)
	if err != nil {
		return nil, err
	}
	for name, content := range templates {
		files[name] = []byte(content)
	}
	written := os.DirFS(filepath.Join(o.Root, "manifests", "chart"))
	if err := copyFrom(written, files); err != nil {
		return nil, err
	}
	const image = "repository: curfew\n"
	if bytes.Count(files["values.yaml"], []byte(image)) != 1 {
		return nil, fmt.Errorf("manifests/chart/values.yaml: found no %q to replace", image)
	}
	files["values.yaml"] = bytes.Replace(files["values.yaml"], []byte(image), []byte("repository: "+o.Repository+"\n"), 1)
	files["Chart.yaml"], err = yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": "curfew", "type": "application", "version": number(o.Version), "appVersion": o.Version,
		"description": "Lifecycle admission and timed cleanup for Kubernetes", "kubeVersion": minimum,
		"keywords": []string{"ttl", "cleanup", "jobs", "admission"},
	})
	return files, err
}

// pack is a chart's archive. The same files and time make the same bytes.
func pack(files map[string][]byte, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "curfew/" + name, Mode: 0o644, Size: int64(len(files[name])), ModTime: modified.UTC()}
		if err := packed.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := packed.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(packed.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
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
	return bytes.ReplaceAll(data, []byte(image), []byte("image: "+o.Repository+":"+o.Version+"\n")), nil
}

// copyFrom adds the files of a folder.
func copyFrom(from fs.FS, files map[string][]byte) error {
	return fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = fs.ReadFile(from, path)
		return err
	})
}
