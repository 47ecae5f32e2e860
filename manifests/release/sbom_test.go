package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"curfew.dev/curfew/manifests/linked"
)

// TestSBOMs: the SBOMs of image and plugin are as CycloneDX's schema says, which comes with its
// library.
func TestSBOMs(t *testing.T) {
	folder := strings.TrimSpace(command(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	const site = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	for url, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json", "spdx.schema.json": "spdx.schema.json",
	} {
		must(t, compiler.AddResource(site+url, parse(t, filepath.Join(folder, "schema", file))))
	}
	schema, err := compiler.Compile(site + "bom-1.6.schema.json")
	must(t, err)
	for name, program := range map[string]string{"curfew": "./cmd/curfew", "kubectl-curfew": "./cmd/kubectl-curfew"} {
		modules, err := linked.Modules(top, program, "linux/amd64")
		must(t, err)
		file, err := linked.WriteSBOM(t.TempDir(), top, name, "v0.1.0", modules)
		must(t, err)
		if err := schema.Validate(parse(t, file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func parse(t *testing.T, path string) any {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	out, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}
