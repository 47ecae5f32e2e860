package chart

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	sigsyaml "sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/crd"
)

// metadata completes Chart.yaml, with the annotations that Artifact Hub reads. It links to the
// repository where the address of the runbooks is given.
func (o *Options) metadata(m *helmchart.Metadata) ([]byte, error) {
	m.Version, m.AppVersion = number(o.Version), o.Version
	for name, list := range map[string]func() ([]object, error){
		"images": o.images, "crds": definitions, "crdsExamples": o.examples, "changes": o.changes,
	} {
		items, err := list()
		if err != nil {
			return nil, err
		}
		text, err := yaml.Marshal(items)
		if err != nil {
			return nil, err
		}
		m.Annotations["artifacthub.io/"+name] = string(text)
	}
	if o.Digest != "" {
		m.Annotations["curfew.dev/image-digest"] = o.Digest
	}
	icon, err := os.ReadFile(filepath.Join(o.Root, "manifests", "chart", "icon.svg"))
	if err != nil {
		return nil, err
	}
	m.Icon = "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(icon)
	if address := o.address(); address != "" {
		m.Home, m.Sources = address+"README.md", []string{address}
	}
	return sigsyaml.Marshal(m)
}

// address is where the files of this version are on the web, or empty.
func (o *Options) address() string { return strings.ReplaceAll(o.Runbooks, "{version}", o.Version) }

func (o *Options) images() ([]object, error) {
	return []object{{"name": "curfew", "image": o.Repository + ":" + o.Version}}, nil
}

// definitions are the CRDs.
func definitions() ([]object, error) {
	crds, err := crd.All()
	if err != nil {
		return nil, err
	}
	var out []object
	for _, crd := range crds {
		version := crd.Spec.Versions[0]
		first, _, _ := strings.Cut(version.Schema.OpenAPIV3Schema.Description, ". ")
		out = append(out, object{"kind": crd.Spec.Names.Kind, "name": crd.Name, "displayName": crd.Spec.Names.Kind,
			"version": version.Name, "description": strings.TrimSuffix(first, ".") + "."})
	}
	return out, nil
}

// examples are the first sample of each kind that users write, and the built-in profile of Jobs.
func (o *Options) examples() ([]object, error) {
	files, err := filepath.Glob(filepath.Join(o.Root, "manifests", "samples", "*.yaml"))
	if err != nil {
		return nil, err
	}
	files = append(files, filepath.Join(o.Root, "manifests", "profiles", "job.yaml"))
	var out []object
	seen := map[any]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		samples, err := decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, sample := range samples {
			group, _ := sample["apiVersion"].(string)
			if kind := sample["kind"]; strings.HasPrefix(group, "curfew.dev/") && !seen[kind] {
				seen[kind] = true
				out = append(out, sample)
			}
		}
	}
	return out, nil
}

var (
	// changed finds the headings of the changelog and its entries, with their further lines.
	changed = regexp.MustCompile(`(?m)^### (\w+)$|^- (.+(?:\n  .+)*)`)
	link    = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
)

// changes are the entries of this version in the changelog, or of the unreleased one.
func (o *Options) changes() ([]object, error) {
	data, err := os.ReadFile(filepath.Join(o.Root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(data), "\n## ")[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		version, _, _ := strings.Cut(strings.TrimPrefix(heading, "["), "]")
		sections[version] = rest
	}
	var out []object
	kind := ""
	for _, found := range changed.FindAllStringSubmatch(cmp.Or(sections[number(o.Version)], sections["Unreleased"]), -1) {
		if found[1] != "" {
			kind = strings.ToLower(found[1])
			continue
		}
		text := link.ReplaceAllString(strings.ReplaceAll(found[2], "\n  ", " "), "$1")
		out = append(out, object{"kind": kind, "description": strings.ReplaceAll(text, "`", "")})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("CHANGELOG.md: no entries of %s or Unreleased", o.Version)
	}
	return out, nil
}
