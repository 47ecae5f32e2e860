package chart

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
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
	out := map[string][]byte{}
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
