package chart

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// templates returns the templates of all objects, by file name.
func templates(o *Options) (map[string][]byte, error) {
	root := o.Root
	base, err := byID(root)
	if err != nil {
		return nil, err
	}
	with := make([]map[string]object, len(components))
	all := maps.Clone(base)
	for i, component := range components {
		if with[i], err = byID(root, component.name); err != nil {
			return nil, err
		}
		maps.Copy(all, with[i])
	}
	for _, one := range all {
		o.link(one)
	}
	for name := range needed {
		if all[name] == nil {
			return nil, fmt.Errorf("%s: no manifest has it", name)
		}
	}
	out, err := confined(root)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var alternatives []alternative
		for i, component := range components {
			if other := with[i][name]; !reflect.DeepEqual(other, base[name]) {
				alternatives = append(alternatives, alternative{component.when, other})
			}
		}
		text, err := template(base[name], alternatives)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out["templates/"+name+".yaml"] = []byte(text)
	}
	return out, nil
}

// byID builds the base with components. Helm makes the Namespace of a release itself.
func byID(root string, components ...string) (map[string]object, error) {
	data, err := Kustomize(root, components...)
	if err != nil {
		return nil, err
	}
	objects, err := decode(data)
	if err != nil {
		return nil, err
	}
	out := map[string]object{}
	for _, o := range objects {
		if o["kind"] == "Namespace" {
			continue
		}
		if _, twice := out[id(o)]; twice {
			return nil, fmt.Errorf("two objects would be in the template %s", id(o))
		}
		out[id(o)] = o
	}
	return out, nil
}

// template prints an object that the base has, or that one component adds.
func template(base object, alternatives []alternative) (string, error) {
	some := base
	if some == nil {
		some = alternatives[0].value.(object)
	}
	p := newPrinter(some)
	write := func() { p.object(base, alternatives) }
	if group, _ := some["apiVersion"].(string); !strings.HasPrefix(group, "cert-manager.io/") { // A team may have certificates issued, too.
		all := write
		write = func() { p.under(0, inCluster, all) }
	}
	trigger := needed[id(some)]
	switch {
	case p.literal:
		p.under(0, ".Values.crds.install", write)
	case trigger != "":
		p.under(0, fmt.Sprintf("or (not .Values.triggers) (has %q .Values.triggers)", trigger), write)
	default:
		write()
	}
	return p.text()
}

// object prints an object, under a condition if a component adds or removes it.
func (p *printer) object(base object, alternatives []alternative) {
	alternatives = p.place("").conditions(alternatives)
	if base == nil {
		if len(alternatives) > 1 {
			p.err = fmt.Errorf("two components add it")
		}
		p.under(0, alternatives[0].when, func() { p.mapping("", 0, alternatives[0].value.(object), nil) })
		return
	}
	for i, a := range alternatives {
		if a.value.(object) == nil {
			rest := slices.Delete(slices.Clone(alternatives), i, i+1)
			p.under(0, "not ("+a.when+")", func() { p.object(base, rest) })
			return
		}
	}
	p.mapping("", 0, base, alternatives)
}

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
func confined(root string) (map[string][]byte, error) {
	data, err := build(filesys.MakeFsOnDisk(), filepath.Join(root, "manifests", "overlays", "namespaced-webhook"))
	if err != nil {
		return nil, err
	}
	objects, err := decode(suffix.ReplaceAll(data, []byte("curfew-config")))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, o := range objects {
		name := "templates/namespaced-" + id(o) + ".yaml"
		if o["metadata"].(object)["namespace"] == team {
			name = "templates/namespaced-team-" + id(o) + ".yaml"
		}
		if out[name] != nil {
			return nil, fmt.Errorf("two objects would be in %s", name)
		}
		text, err := confinedTemplate(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = []byte(text)
	}
	return out, nil
}

func confinedTemplate(o object) (string, error) {
	p := newPrinter(o)
	if o["metadata"].(object)["namespace"] == team {
		// with restores what range replaces: the values and the release.
		p.lines(0, "{{- range $team := .Values.onlyNamespaces }}\n{{- with $ }}\n---\n")
		p.mapping("", 0, o, nil)
		p.lines(0, "{{- end }}\n{{- end }}\n")
	} else {
		p.under(0, inNamespaces, func() { p.mapping("", 0, o, nil) })
	}
	const flag = "--only-namespaces="
	text, err := p.text()
	text = strings.ReplaceAll(text, flag+team, flag+`{{ join "," .Values.onlyNamespaces }}`)
	return strings.ReplaceAll(text, team, "{{ $team | quote }}"), err
}
