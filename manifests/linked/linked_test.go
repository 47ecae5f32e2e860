package linked

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

const root = "../.."

// TestModules: the licences of all linked modules are known, and so are the licences of copied
// packages and of Go itself. No module is there that only tests need.
func TestModules(t *testing.T) {
	for _, program := range []string{"./cmd/curfew", "./cmd/kubectl-curfew"} {
		modules, err := Modules(root, program, "linux/amd64", "windows/amd64")
		if err != nil {
			t.Fatal(err)
		}
		paths, names := map[string]Module{}, map[string]string{}
		for _, module := range modules {
			paths[module.Path] = module
			if len(module.Licences) == 0 || module.Version == "" {
				t.Errorf("%s: %s %s under %v", program, module.Path, module.Version, module.Licences)
			}
		}
		for _, file := range Files(modules) {
			if _, twice := names[file.Name]; twice {
				t.Errorf("%s: %s is there twice", program, file.Name)
			}
			names[file.Name] = string(file.Content)
		}
		for name, want := range map[string]string{
			"licenses/std/LICENSE": "The Go Authors", "licenses/k8s.io/api/LICENSE": "Apache License",
			"licenses/github.com/prometheus/client_golang/NOTICE": "Prometheus", "licenses/golang.org/x/net/PATENTS": "patent",
			"licenses/k8s.io/apimachinery/third_party/forked/golang/LICENSE": "The Go Authors",
		} {
			if !strings.Contains(names[name], want) {
				t.Errorf("%s: %s is %.60q, want a text with %q", program, name, names[name], want)
			}
		}
		if licences := paths["go.yaml.in/yaml/v3"].Licences; !slices.Equal(licences, []string{"Apache-2.0", "MIT"}) {
			t.Errorf("%s: YAML has licences %v", program, licences)
		}
		if _, ok := paths["pgregory.net/rapid"]; ok || len(paths) < 50 {
			t.Errorf("%s: %d modules, a module for tests: %t", program, len(paths), ok)
		}
	}
	if _, err := Modules(root, "./cmd/curfew", "linux"); err == nil || err.Error() != "linux: give OS/ARCH, such as linux/amd64" {
		t.Errorf("a platform: %v", err)
	}
}

// TestUnknownLicence: a licence that is not known, not allowed, changed, or missing is refused.
func TestUnknownLicence(t *testing.T) {
	apache, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	const gpl = "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License " +
		"as published by the Free Software Foundation, either version 2 of the License, or (at your option) any later version."
	const unknown = "You may use this software on Sundays."
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"known":       {map[string]string{"LICENSE": string(apache), "license.go": unknown, "NOTICE": unknown}, ""},
		"unknown":     {map[string]string{"LICENSE": unknown}, "only 0% of it is the known text of licences"},
		"one of two":  {map[string]string{"LICENSE": string(apache), "COPYING": unknown}, "only 0% of it is the known text of licences"},
		"amended":     {map[string]string{"LICENSE": string(apache) + strings.Repeat(unknown, 200)}, "of it is the known text of licences"},
		"not allowed": {map[string]string{"LICENSE": string(apache), "COPYING": gpl}, "its licence is GPL-2.0-or-later, which is none of Apache-2.0, "},
		"missing":     {map[string]string{"NOTICE": unknown}, "module example.com/m has no licence file in "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range test.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			module := Module{Path: "example.com/m"}
			err := module.read(dir, dir)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if err == nil && (len(module.Files) != 2 || module.Files[0].Name != "licenses/example.com/m/LICENSE") {
				t.Errorf("files %v", module.Files)
			}
		})
	}
}

// TestSBOM: scanners find each module by its package URL, and the same modules make the same bytes.
// TestSBOMs of manifests/release compares SBOMs with the schema.
func TestSBOM(t *testing.T) {
	var made [2][]byte
	for i := range made {
		var err error
		if made[i], err = sbom("curfew", "v0.1.0", time.Unix(1_700_000_000, 0), []Module{
			{Path: "example.com/a", Version: "v1.0.0+incompatible", Licences: []string{"Apache-2.0", "MIT"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Errorf("made\n%s\nand then\n%s", made[0], made[1])
	}
	var got cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(made[0]), cyclonedx.BOMFileFormatJSON).Decode(&got); err != nil {
		t.Fatal(err)
	}
	top := got.Metadata.Component
	if got.SpecVersion != cyclonedx.SpecVersion1_6 || got.Metadata.Timestamp != "2023-11-14T22:13:20Z" || top.Type != cyclonedx.ComponentTypeApplication ||
		top.Name != "curfew" || top.PackageURL != "pkg:golang/curfew.dev/curfew@v0.1.0" {
		t.Errorf("the document begins with %s %+v", got.SpecVersion, top)
	}
	const purl = "pkg:golang/example.com/a@v1.0.0%2Bincompatible"
	if c := (*got.Components)[0]; len(*got.Components) != 1 || c.Type != cyclonedx.ComponentTypeLibrary || c.Name != "example.com/a" ||
		c.Version != "v1.0.0+incompatible" || c.PackageURL != purl || c.BOMRef != purl || len(*c.Licenses) != 2 || (*c.Licenses)[1].License.ID != "MIT" {
		t.Errorf("component %+v", c)
	}
	if dependency := (*got.Dependencies)[0]; dependency.Ref != top.BOMRef || !slices.Equal(*dependency.Dependencies, []string{purl}) {
		t.Errorf("dependencies %+v", dependency)
	}
}
