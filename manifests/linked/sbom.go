package linked

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"curfew.dev/curfew/manifests/pack"
)

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

// sbom has no serial number: the same modules make the same bytes.
//
// The tool cyclonedx-gomod does not fit: it knows the modules of one platform, and it needs a
// module cache to find licences. A build from the source archive has only vendored modules.
func sbom(program, version string, created time.Time, modules []Module) ([]byte, error) {
	top := component(cyclonedx.ComponentTypeApplication, Module{Path: "curfew.dev/curfew", Version: version, Licences: []string{"Apache-2.0"}})
	top.Name = program
	components, refs := []cyclonedx.Component{}, []string{}
	for _, module := range modules {
		part := component(cyclonedx.ComponentTypeLibrary, module)
		components, refs = append(components, part), append(refs, part.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: created.UTC().Format(time.RFC3339), Component: &top}
	bom.Components, bom.Dependencies = &components, &[]cyclonedx.Dependency{{Ref: top.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

// component describes a module with its package URL, by which scanners know it.
func component(kind cyclonedx.ComponentType, module Module) cyclonedx.Component {
	licences := cyclonedx.Licenses{}
	for _, id := range module.Licences {
		licences = append(licences, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	purl := "pkg:golang/" + module.Path + "@" + url.QueryEscape(module.Version)
	return cyclonedx.Component{Type: kind, BOMRef: purl, PackageURL: purl, Name: module.Path, Version: module.Version, Licenses: &licences}
}
