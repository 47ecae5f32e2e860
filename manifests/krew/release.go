package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/linked"
	"curfew.dev/curfew/manifests/pack"
)

// release describes the release to pack.
type release struct {
	version, out, url, homepage string
	platforms                   []string
	// progress gets a line for each step.
	progress io.Writer
	// build writes the plugin for a platform into a file.
	build func(goos, goarch, version, file string) error
}

func (r *release) validate() error {
	var errs []error
	if !pack.Version.MatchString(r.version) {
		errs = append(errs, fmt.Errorf("-version=%s: give one such as v0.1.0 (make krew VERSION=v0.1.0)", r.version))
	}
	for name, address := range map[string]string{"url": r.url, "homepage": r.homepage} {
		if address != "" && !strings.HasPrefix(address, "https://") {
			errs = append(errs, fmt.Errorf("-%s=%s: give an address that begins with https://", name, address))
		}
	}
	for _, platform := range r.platforms {
		if goos, goarch, ok := strings.Cut(platform, "/"); !ok || goos == "" || goarch == "" {
			errs = append(errs, fmt.Errorf("-platforms: %q: give OS/ARCH, such as linux/amd64", platform))
		}
	}
	return errors.Join(errs...)
}

// pack writes the archives and the manifest, and returns their paths.
func (r *release) pack() ([]string, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	root, err := root()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	modules, err := linked.Modules(root, program, r.platforms...)
	if err != nil {
		return nil, err
	}
	var platforms []object
	var files []string
	for i, platform := range r.platforms {
		fmt.Fprintf(r.progress, "%s (%d of %d)\n", platform, i+1, len(r.platforms))
		goos, goarch, _ := strings.Cut(platform, "/")
		archive, err := r.archive(root, goos, goarch, linked.Files(modules))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		name := fmt.Sprintf("kubectl-curfew_%s_%s_%s.tar.gz", r.version, goos, goarch)
		file := filepath.Join(r.out, name)
		if err := os.WriteFile(file, archive, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file)
		uri := name
		if r.url != "" {
			uri = strings.TrimSuffix(r.url, "/") + "/" + name
		}
		sum := sha256.Sum256(archive)
		platforms = append(platforms, object{
			"selector": object{"matchLabels": object{"os": goos, "arch": goarch}},
			"uri":      uri, "sha256": hex.EncodeToString(sum[:]), "bin": binary(goos),
		})
	}
	text, err := yaml.Marshal(newPlugin(r.version, r.homepage, platforms))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.out, "curfew.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	sbom, err := linked.WriteSBOM(r.out, root, "kubectl-curfew", r.version, modules)
	return append(files, file, sbom), err
}

// program is the package of the plugin.
const program = "./cmd/kubectl-curfew"

// binary is the plugin's file in an archive.
func binary(goos string) string {
	if goos == "windows" {
		return "kubectl-curfew.exe"
	}
	return "kubectl-curfew"
}

// archive contains the plugin, the script for kubectl's completion, the licence, which krew
// requires, and the licences of linked modules. It has no time: the same source makes the same
// archive.
func (r *release) archive(root, goos, goarch string, licences []pack.File) ([]byte, error) {
	dir, err := os.MkdirTemp("", "krew")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	built := filepath.Join(dir, binary(goos))
	if err := r.build(goos, goarch, r.version, built); err != nil {
		return nil, err
	}
	files := []pack.File{
		{Path: built, Name: binary(goos), Mode: 0o755},
		{Path: filepath.Join(root, "LICENSE"), Name: "LICENSE", Mode: 0o644},
	}
	if goos != "windows" {
		const script = "kubectl_complete-curfew"
		files = append(files, pack.File{Path: filepath.Join(root, "cmd", "kubectl-curfew", script), Name: script, Mode: 0o755})
	}
	return pack.TarGz(time.Time{}, append(files, licences...)...)
}

// build runs go build, independent of the machine.
func build(goos, goarch, version, file string) error {
	flags, env := pack.Static(goos, goarch)
	return compile(version, file, flags, env...)
}

func compile(version, file string, flags []string, env ...string) error {
	root, err := root()
	if err != nil {
		return err
	}
	return pack.Build(root, program, version, file, flags, env...)
}

// root is the top folder of the repository.
func root() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in or above %s: run this within the repository", here)
		}
	}
}

// newPlugin is krew's manifest of a plugin. Source: krew's developer guide, "Writing a plugin
// manifest".
func newPlugin(version, homepage string, platforms []object) object {
	spec := object{
		"version": version, "platforms": platforms,
		"shortDescription": "Show what will be deleted, when, and why",
		"description": "Curfew deletes finished Jobs, Pods and other objects when their time has come. " +
			`This plugin answers, from the API server alone and
with your own permissions: what Curfew deletes in the next hours, why an object expires when it does, and what blocks it. It lets objects
live longer, go at once, or stay, and checks manifests without a cluster.
`,
		"caveats": `To have kubectl complete "kubectl curfew", put into a folder of your PATH what this prints, and make it executable:
  kubectl curfew completion kubectl > kubectl_complete-curfew
`,
	}
	if homepage != "" {
		spec["homepage"] = homepage
	}
	return object{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": object{"name": "curfew"}, "spec": spec,
	}
}

type object = map[string]any
