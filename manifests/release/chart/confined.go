package chart

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// inCluster and inNamespaces are the two ways in which a release is installed.
const (
	inCluster    = "not .Values.onlyNamespaces"
	inNamespaces = ".Values.onlyNamespaces"
)

// team is the namespace that manifests/overlays/namespaced-webhook works in.
const team = "team-a"

// suffix is the hash that kustomize appends to a ConfigMap. The programs read changed files again.
var suffix = regexp.MustCompile(`curfew-config-[a-z0-9]+`)

// confined returns the templates of Curfew in listed namespaces:
// manifests/overlays/namespaced-webhook, with the objects of its team for each of them.
func confined(root string) (map[string]string, error) {
	dir := filepath.Join(root, "manifests", "overlays", "namespaced-webhook")
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", dir, err)
	}
	data, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	objects, err := decode(suffix.ReplaceAll(data, []byte("curfew-config")))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, o := range objects {
		name := "templates/namespaced-" + id(o) + ".yaml"
		if o["metadata"].(object)["namespace"] == team {
			name = "templates/namespaced-team-" + id(o) + ".yaml"
		}
		if out[name] != "" {
			return nil, fmt.Errorf("two objects would be in %s", name)
		}
		if out[name], err = confinedTemplate(o); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

func confinedTemplate(o object) (string, error) {
	p := &printer{places: parameters(o), used: map[string]bool{}}
	if o["kind"] == "ConfigMap" {
		p.places = map[string]place{".data": {block: "{{- toYaml .Values.config | nindent 2 }}"}}
	}
	if o["metadata"].(object)["namespace"] == team {
		// with restores what range replaces: the values and the release.
		p.line(0, "{{- range $team := .Values.onlyNamespaces }}")
		p.line(0, "{{- with $ }}")
		p.line(0, "---")
		p.mapping("", 0, o, nil)
		p.line(0, "{{- end }}")
		p.line(0, "{{- end }}")
	} else {
		p.under(0, inNamespaces, func() { p.mapping("", 0, o, nil) })
	}
	for path := range p.places {
		if !p.used[path] && p.err == nil {
			p.err = fmt.Errorf("it has no %s for a value to change", path)
		}
	}
	const flag = "--only-namespaces="
	text := strings.ReplaceAll(strings.Join(p.out, "\n")+"\n", flag+team, flag+`{{ join "," .Values.onlyNamespaces }}`)
	return strings.ReplaceAll(text, team, "{{ $team | quote }}"), p.err
}
