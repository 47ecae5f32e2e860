package linked

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"curfew.dev/curfew/manifests/pack"
)

// object is a JSON object.
type object = map[string]any

// WriteSBOM writes the bill of materials of a program into a folder, in CycloneDX's JSON, and
// returns its path.
func WriteSBOM(dir, root, program, version string, modules []Module) (string, error) {
	_, created, err := pack.Commit(root)
	if err != nil {
		return "", err
	}
	data, err := sbom(program, version, created, modules)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, program+"_"+version+".cdx.json")
	return file, os.WriteFile(file, data, 0o644)
}

// sbom follows the CycloneDX specification, version 1.6. It has no serial number: the same modules
// make the same bytes.
func sbom(program, version string, created time.Time, modules []Module) ([]byte, error) {
	top := component("application", Module{Path: "curfew.dev/curfew", Version: version, Licences: []string{"Apache-2.0"}})
	top["name"] = program
	components, refs := []object{}, []any{}
	for _, module := range modules {
		one := component("library", module)
		components, refs = append(components, one), append(refs, one["bom-ref"])
	}
	data, err := json.MarshalIndent(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   object{"timestamp": created.UTC().Format(time.RFC3339), "component": top},
		"components": components, "dependencies": []object{{"ref": top["bom-ref"], "dependsOn": refs}},
	}, "", "  ")
	return append(data, '\n'), err
}

// component describes a module with its package URL, by which scanners know it.
func component(kind string, module Module) object {
	licences := []object{}
	for _, id := range module.Licences {
		licences = append(licences, object{"license": object{"id": id}})
	}
	purl := "pkg:golang/" + module.Path + "@" + url.QueryEscape(module.Version)
	return object{"type": kind, "bom-ref": purl, "purl": purl, "name": module.Path, "version": module.Version, "licenses": licences}
}
