package chart

import (
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

// text is the template, if every place was found.
func (p *printer) text() (string, error) {
	for path := range p.places {
		if !p.used[path] && p.err == nil {
			p.err = fmt.Errorf("it has no %s for a value to change", path)
		}
	}
	return strings.Join(p.out, "\n") + "\n", p.err
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
	p.lines(indent, p.place(path).more)
}

// entry writes a key or a dash, and its value.
func (p *printer) entry(path string, indent int, head string, base any, alternatives []alternative) {
	var kept []alternative
	for _, a := range alternatives {
		switch {
		case base == nil:
			p.under(indent, a.when, func() { p.entry(path, indent, head, a.value, nil) })
		case a.value == nil:
			p.under(indent, "not ("+a.when+")", func() { p.entry(path, indent, head, base, nil) })
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
		p.entry(path, indent, head, other.value, nil)
		p.line(indent, "{{- else }}")
		p.entry(path, indent, head, base, nil)
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
	p.lines(indent, p.place(path).more)
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

// What values add to a Deployment. %[1]s is its component, webhook or controller.
const podMore = `{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.%[1]s.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.%[1]s.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.%[1]s.tolerations }}
tolerations:
  {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.%[1]s.affinity }}
affinity:
  {{- toYaml . | nindent 8 }}
{{- end }}
`

const replicas = `{{ if kindIs "invalid" .Values.%[1]s.replicas }}%%s{{ else }}{{ .Values.%[1]s.replicas }}{{ end }}`

const argsMore = `{{- with include "curfew.protect" . }}
{{ . }}
{{- end }}
{{- with .Values.triggers }}
- --enable={{ join "," . }}
{{- end }}
{{- range concat .Values.args .Values.%[1]s.args }}
- {{ . | quote }}
{{- end }}
`

const annotationsMore = `{{- with .Values.%[1]s.podAnnotations }}
annotations:
  {{- toYaml . | nindent 8 }}
{{- end }}
`

// restorersMore exempts accounts from the policy on statuses.
const restorersMore = `{{- range $index, $user := .Values.restorers }}
- name: restorer-{{ $index }}
  expression: {{ printf "request.userInfo.username != %q" $user | quote }}
{{- end }}
`

// needed names the trigger without which the controller does not use an object. The role of
// PodTallies is not here: while they are switched off, the controller removes their finalizers. The
// role of runtimes is not here either: the controller always keeps their stamps, so that switching
// on a trigger loses nothing.
var needed = map[string]string{
	"clusterrole-curfew-controller-deadlines": "deadline",
	"clusterrole-curfew-controller-cleanup":   "cleanup",
	"role-curfew-controller-cleanup":          "cleanup",
	"rolebinding-curfew-controller-cleanup":   "cleanup",
}

// parameters returns the places of an object, by path, where a value of the chart is inserted that
// no component sets.
func parameters(o object) map[string]place {
	switch o["kind"] {
	case "Deployment":
		part := strings.TrimPrefix(id(o), "deployment-curfew-")
		const pod, container = ".spec.template.spec", ".spec.template.spec.containers.0"
		return map[string]place{
			".spec.replicas":               {value: fmt.Sprintf(replicas, part)},
			".spec.template.metadata":      {more: fmt.Sprintf(annotationsMore, part)},
			pod:                            {more: fmt.Sprintf(podMore, part)},
			container + ".image":           {value: `{{ include "curfew.image" . | quote }}`},
			container + ".imagePullPolicy": {value: "{{ .Values.image.pullPolicy }}"},
			container + ".args":            {more: fmt.Sprintf(argsMore, part)},
			container + ".resources":       {block: fmt.Sprintf("{{- toYaml .Values.%s.resources | nindent 12 }}", part)},
		}
	case "ValidatingWebhookConfiguration":
		return notProtected(o)
	case "ValidatingAdmissionPolicy":
		switch id(o) {
		case "validatingadmissionpolicy-curfew-status":
			return map[string]place{".spec.matchConditions": {more: restorersMore}}
		case "validatingadmissionpolicy-curfew-controller":
			return map[string]place{".spec.variables.0.expression": {value: "{{ .Values.webhookKeys | toJson | quote }}"}}
		}
	case "CustomResourceDefinition":
		return map[string]place{
			".metadata.annotations": {more: "{{- if .Values.crds.keep }}\nhelm.sh/resource-policy: keep\n{{- end }}\n"},
		}
	}
	return nil
}

// notProtected derives the condition that component fail-closed adds to each webhook from the value
// protect. For curfew-kinds the controller derives it from its flag.
func notProtected(o object) map[string]place {
	webhooks, _ := o["webhooks"].([]any)
	out := map[string]place{}
	for i := range webhooks {
		path := fmt.Sprintf(".webhooks.%d.matchConditions.more.0.expression", i)
		out[path] = place{value: `{{ include "curfew.notProtected" . | squote }}`}
	}
	return out
}

// link gives the alerts of a PrometheusRule links to their runbooks, whose paths end their
// descriptions. Without a base address it adds no links: a path alone would be a dead link.
func (o *Options) link(of object) {
	if o.Runbooks == "" || of["kind"] != "PrometheusRule" {
		return
	}
	base := strings.ReplaceAll(o.Runbooks, "{version}", o.Version)
	spec, _ := of["spec"].(object)
	groups, _ := spec["groups"].([]any)
	for _, group := range groups {
		group, _ := group.(object)
		alerts, _ := group["rules"].([]any)
		for _, alert := range alerts {
			alert, _ := alert.(object)
			annotations, _ := alert["annotations"].(object)
			description, _ := annotations["description"].(string)
			if _, path, ok := strings.Cut(description, "Runbook: "); ok {
				annotations["runbook_url"] = base + path
			}
		}
	}
}
