package chart

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// alternative replaces a value when a component is on.
type alternative struct {
	when  string
	value any // nil if the component removes it
}

// printer writes one object as a template. Parts that no component changes are plain YAML; the rest
// depends on values.
type printer struct {
	out []string
	// places are where values are inserted, by path.
	places map[string]place
	// used are the places that were found.
	used map[string]bool
	// literal objects have no namespace to replace.
	literal bool
	// webhook is the Deployment of the webhook.
	webhook bool
	err     error
}

// place inserts a value of the chart into an object.
type place struct {
	// value replaces a value. %s in it stands for the replaced text.
	value string
	// block are lines that replace everything below a key.
	block string
	// more are lines at the end of a map or list.
	more string
	// set is a value of the chart that, unless empty, replaces the value of a key, or adds the key.
	set string
	// add is a value of the chart whose entries or items are added to a map or list, which may be new.
	add string
	// when replaces the condition under which components change it. The path of an object is "".
	when string
}

func (p *printer) line(indent int, text string) {
	p.out = append(p.out, strings.Repeat(" ", indent)+text)
}

func (p *printer) lines(indent int, text string) {
	for line := range strings.Lines(text) {
		p.line(indent, strings.TrimSuffix(line, "\n"))
	}
}

// under puts lines into an if.
func (p *printer) under(indent int, when string, write func()) {
	p.line(indent, "{{- if "+when+" }}")
	write()
	p.line(indent, "{{- end }}")
}

// newPrinter prints an object with the places of its values.
func newPrinter(o object) *printer {
	return &printer{places: parameters(o), used: map[string]bool{}, literal: o["kind"] == "CustomResourceDefinition",
		webhook: id(o) == "deployment-curfew-webhook"}
}

// text is the template, if every place was found.
func (p *printer) text() (string, error) {
	for path := range p.places {
		if !p.used[path] && p.err == nil {
			p.err = fmt.Errorf("it has no %s for a value to change", path)
		}
	}
	text := strings.Join(p.out, "\n") + "\n"
	if p.webhook {
		text = ofWebhook(text)
	}
	return text, p.err
}

func (p *printer) place(path string) place {
	found, ok := p.places[path]
	if ok {
		p.used[path] = true
	}
	return found
}

// mapping writes the keys of a map in order.
func (p *printer) mapping(path string, indent int, base object, alternatives []alternative) {
	keys := slices.Collect(maps.Keys(base))
	for _, a := range alternatives {
		keys = slices.AppendSeq(keys, maps.Keys(a.value.(object)))
	}
	for at, place := range p.places {
		if dot := strings.LastIndex(at, "."); dot >= 0 && at[:dot] == path && place.set+place.add != "" {
			keys = append(keys, at[dot+1:])
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		var differ []alternative
		for _, a := range alternatives {
			if value := a.value.(object)[key]; !reflect.DeepEqual(value, base[key]) {
				differ = append(differ, alternative{a.when, value})
			}
		}
		p.entry(path+"."+key, indent, key+":", base[key], differ)
	}
	p.end(path, indent)
}

// end writes what values add to a map or list.
func (p *printer) end(path string, indent int) {
	place := p.place(path)
	p.lines(indent, place.more)
	if place.add != "" {
		p.with(indent, place.add, "", nil)
	}
}

// with writes a value of the chart unless it is empty, and otherwise what instead writes.
func (p *printer) with(indent int, value, head string, instead func()) {
	p.line(indent, "{{- with "+value+" }}")
	inside := indent
	if head != "" {
		p.line(indent, head)
		inside += 2
	}
	p.line(inside, fmt.Sprintf("{{- toYaml . | nindent %d }}", inside))
	if instead != nil {
		p.line(indent, "{{- else }}")
		instead()
	}
	p.line(indent, "{{- end }}")
}

// entry writes a key or a dash, and its value, or what values of the chart make of it.
func (p *printer) entry(path string, indent int, head string, base any, alternatives []alternative) {
	place := p.place(path)
	alternatives = place.conditions(alternatives)
	write := func() { p.plain(path, indent, head, base, alternatives) }
	switch {
	case base == nil && len(alternatives) == 0:
		if value := place.set + place.add; value != "" {
			p.with(indent, value, head, nil)
		}
	case place.set != "":
		p.with(indent, place.set, head, write)
	case place.add != "" && base == nil:
		whens := make([]string, len(alternatives))
		for i, a := range alternatives {
			whens[i] = "(" + a.when + ")"
		}
		p.under(indent, "or "+strings.Join(whens, " ")+" ("+place.add+")", func() {
			p.line(indent, head)
			if _, list := alternatives[0].value.([]any); list {
				p.list(path, indent, nil, alternatives)
			} else {
				p.mapping(path, indent+2, nil, alternatives)
			}
		})
	default:
		write()
	}
}

// conditions are alternatives under the condition of a place.
func (p place) conditions(alternatives []alternative) []alternative {
	out := slices.Clone(alternatives)
	for i := range out {
		out[i].when = cmp.Or(p.when, out[i].when)
	}
	return out
}

// plain writes a key or a dash, and its value.
func (p *printer) plain(path string, indent int, head string, base any, alternatives []alternative) {
	var kept []alternative
	for _, a := range alternatives {
		switch {
		case base == nil:
			p.under(indent, a.when, func() { p.plain(path, indent, head, a.value, nil) })
		case a.value == nil:
			p.under(indent, "not ("+a.when+")", func() { p.plain(path, indent, head, base, nil) })
			if len(alternatives) > 1 {
				p.err = fmt.Errorf("%s: one component removes what another changes", path)
			}
			return
		case reflect.TypeOf(a.value) != reflect.TypeOf(base):
			p.err = fmt.Errorf("%s: a component makes it another type", path)
			return
		default:
			kept = append(kept, a)
		}
	}
	if base == nil {
		if len(alternatives) > 1 {
			p.err = fmt.Errorf("%s: two components add it", path)
		}
		return
	}
	if block := p.place(path).block; block != "" {
		p.line(indent, head)
		p.lines(indent+2, block)
		return
	}
	switch value := base.(type) {
	case object:
		if len(value) > 0 {
			start := len(p.out)
			p.line(indent, head)
			p.mapping(path, indent+2, value, kept)
			p.join(start)
			return
		}
	case []any:
		if len(value) > 0 {
			if len(kept) == 1 && len(kept[0].value.([]any)) < len(value) {
				p.either(path, indent, head, base, kept[0])
				return
			}
			p.line(indent, head)
			p.list(path, indent, value, kept)
			return
		}
	}
	p.scalar(path, indent, head, base, kept)
}

// either writes a value that a component replaces as a whole.
func (p *printer) either(path string, indent int, head string, base any, other alternative) {
	p.under(indent, other.when, func() {
		p.plain(path, indent, head, other.value, nil)
		p.line(indent, "{{- else }}")
		p.plain(path, indent, head, base, nil)
	})
}

// join moves the first key of a map in a list beside the dash, unless it depends on a value.
func (p *printer) join(dash int) {
	first := strings.TrimSpace(p.out[dash+1])
	if strings.HasSuffix(p.out[dash], "-") && !strings.HasPrefix(first, "{{") {
		p.out[dash] += " " + first
		p.out = slices.Delete(p.out, dash+1, dash+2)
	}
}

// list writes the items of a list. A component may change items, and add some at the end.
func (p *printer) list(path string, indent int, base []any, alternatives []alternative) {
	for i, item := range base {
		var differ []alternative
		for _, a := range alternatives {
			other := a.value.([]any)
			if i >= len(other) {
				p.err = fmt.Errorf("%s: a component removes items", path)
				return
			}
			if !reflect.DeepEqual(other[i], item) {
				differ = append(differ, alternative{a.when, other[i]})
			}
		}
		p.entry(path+"."+strconv.Itoa(i), indent, "-", item, differ)
	}
	for _, a := range alternatives {
		if more := a.value.([]any)[len(base):]; len(more) > 0 {
			p.under(indent, a.when, func() { p.list(path+".more", indent, more, nil) })
		}
	}
	p.end(path, indent)
}

// scalar writes a single value, which may depend on components.
func (p *printer) scalar(path string, indent int, head string, base any, alternatives []alternative) {
	text := p.marshal(base)
	if strings.Contains(text, "\n") { // a literal block, whose lines are indented from the head
		if len(alternatives) > 0 {
			p.err = fmt.Errorf("%s: a component changes a text of several lines", path)
		}
		p.lines(indent, head+" "+text)
		return
	}
	if len(alternatives) > 0 {
		var chain strings.Builder
		for i, a := range alternatives {
			word := "if"
			if i > 0 {
				word = "else if"
			}
			fmt.Fprintf(&chain, "{{ %s %s }}%s", word, a.when, p.marshal(a.value))
		}
		text = chain.String() + "{{ else }}" + text + "{{ end }}"
	}
	if value := p.place(path).value; value != "" {
		text = strings.ReplaceAll(value, "%s", text)
	}
	p.line(indent, head+" "+text)
}

// marshal returns a value as YAML, with {{ escaped for the template.
func (p *printer) marshal(value any) string {
	data, err := yaml.Marshal(value)
	if err != nil {
		p.err = err
	}
	text := strings.ReplaceAll(strings.TrimSuffix(string(data), "\n"), "{{", `{{ "{{" }}`)
	switch {
	case p.literal:
	case text == namespace:
		text = "{{ .Release.Namespace | quote }}" // one of digits would be a number
	default:
		text = strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
	}
	return text
}

// namespace is Curfew's own in the manifests. A release of the chart may be in another.
const namespace = "curfew-system"
