package references

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// everyday are labels that people put on any object. As a word in another object they mean nothing;
// a selector still does, also as a text: app=web.
var everyday = append([]string{
	"app", "application", "branch", "chart", "commit", "component", "control-plane", "cost-center", "created-by", "customer", "env",
	"environment", "heritage", "instance", "k8s-app", "managed-by", "name", "namespace", "owner", "part-of", "project", "release", "role",
	"run", "service", "stage", "team", "tenant", "tier", "track", "type", "version",
}, plain...)

// maxSelectors bounds the selectors, and maxOfLabel those that need the same label. With more, the
// label alone counts.
const maxSelectors, maxOfLabel = 10_000, 100

// maxLabels bounds the labels of a candidate, and maxMarks those of all: the API server bounds no
// number of labels. An object with more counts as used. Tests make maxMarks smaller.
const maxLabels = 64

var maxMarks = 1_000_000

// pair is a label; the value is "" for any.
type pair struct{ key, value string }

// mark is a label of candidates, and what objects say about it.
type mark struct {
	pair
	any    *mark // of the same key
	chosen bool
	by     []choice
}

// choice is a selector and its text.
type choice struct {
	labels.Selector
	text string
}

// marks are the labels of a candidate.
type marks []*mark

// chosen reports whether an object chooses the candidates with these labels.
func (m marks) chosen() bool {
	set := labels.Set{}
	for _, one := range m {
		set[one.key] = one.value
	}
	matches := func(by choice) bool { return by.Matches(set) }
	return slices.ContainsFunc(m, func(one *mark) bool {
		return one.chosen || one.any.chosen || slices.ContainsFunc(one.by, matches) || slices.ContainsFunc(one.any.by, matches)
	})
}

// chosen is what objects say about the labels of candidates. Programs choose objects by their
// labels: paramRef.selector, cloneList.selector of Kyverno, LABEL of k8s-sidecar.
type chosen struct {
	marks map[pair]*mark
	count int // of selectors
}

// keep returns the labels of a candidate that do not show by themselves that it is used.
func (c *chosen) keep(all map[string]string) (out marks) {
	for key, value := range all {
		if !program(key) {
			out = append(out, c.mark(key, value))
		}
	}
	return slices.Clip(out)
}

func (c *chosen) mark(key, value string) *mark {
	out := c.marks[pair{key, value}]
	if out == nil {
		out = &mark{pair: pair{key, value}}
		c.marks[out.pair], out.any = out, out
		if value != "" {
			out.any = c.mark(key, "")
		}
	}
	return out
}

// scan notes the labels that an object names: in the selectors and texts of a custom kind, in the
// arguments and variables of a workload, and in the selector of an admission policy's parameters.
func (c *chosen) scan(kind schema.GroupKind, object map[string]any) {
	switch {
	case len(c.marks) == 0:
	case !BuiltIn(kind.Group):
		c.walk(true, "", object)
	case kind.Group == admission:
		selector, _, _ := unstructured.NestedMap(object, "spec", "paramRef", "selector")
		c.selector(selector)
	case runs(kind):
		c.walk(false, "", object["spec"])
	}
}

// runs reports whether a built-in kind runs containers.
func runs(kind schema.GroupKind) bool {
	return kind.Group == "apps" || kind.Group == "batch" || kind.Group == "" && (kind.Kind == "Pod" || kind.Kind == "ReplicationController")
}

// walk looks through all but metadata: an object's own labels, or those of a template, choose no
// others.
func (c *chosen) walk(custom bool, field string, value any) {
	switch value := value.(type) {
	case string:
		if custom || field == "args" || field == "command" || field == "value" {
			c.text(value)
		}
	case []any:
		for _, item := range value {
			c.walk(custom, field, item)
		}
	case map[string]any:
		if custom {
			c.selector(value)
		}
		for key, child := range value {
			if key == "metadata" {
				continue
			}
			if custom {
				c.text(key)
			}
			c.walk(custom, key, child)
		}
	}
}

// text notes the labels in a text, such as --label=config or app=web.
func (c *chosen) text(text string) {
	for word := range strings.FieldsFuncSeq(text, endsLabel) {
		before := ""
		for part := range strings.SplitSeq(word, "=") {
			if part = strings.Trim(part, "-._/"); part == "" {
				continue
			}
			if of := c.marks[pair{part, ""}]; of != nil && !slices.Contains(everyday, part) {
				of.chosen = true
			}
			if of := c.marks[pair{before, part}]; of != nil {
				of.chosen = true
			}
			before = part
		}
	}
}

// endsLabel reports whether a character is in no label, and not between a key and its value.
func endsLabel(r rune) bool {
	return endsName(r) && (r < 'A' || r > 'Z') && r != '_' && r != '/' && r != '='
}

// selector notes a selector by the labels that it needs. One that only excludes labels does not
// choose the objects that have none of them.
func (c *chosen) selector(content map[string]any) {
	equal, _ := content["matchLabels"].(map[string]any)
	expressions, _ := content["matchExpressions"].([]any)
	var needs []*mark
	for key, value := range equal {
		text, ok := value.(string)
		of := c.marks[pair{key, text}]
		if !ok || strings.ContainsFunc(text, endsLabel) { // a template, such as {{ app }}
			of = c.marks[pair{key, ""}]
		} else if of == nil {
			return
		}
		needs = append(needs, of)
	}
	for _, item := range expressions {
		expression, _ := item.(map[string]any)
		key, _ := expression["key"].(string)
		needs = append(needs, c.marks[pair{key, ""}])
	}
	if needs = slices.DeleteFunc(needs, func(of *mark) bool { return of == nil }); len(needs) == 0 {
		return
	}
	parsed := &metav1.LabelSelector{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, parsed)
	selector, invalid := metav1.LabelSelectorAsSelector(parsed)
	alone := len(equal) == 1 && len(expressions) == 0
	if err != nil || invalid != nil { // It may become valid.
		selector, alone = labels.Everything(), true
	}
	text := selector.String()
	for _, of := range needs {
		switch {
		case of.chosen, slices.ContainsFunc(of.by, func(by choice) bool { return by.text == text }):
		case alone, len(of.by) == maxOfLabel, c.count == maxSelectors:
			of.chosen, of.by = true, nil
		default:
			of.by = append(of.by, choice{selector, text})
			c.count++
		}
	}
}
