package references

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// chosen is what objects say about the labels of candidates. Programs choose objects by their
// labels: paramRef.selector, cloneList.selector of Kyverno, LABEL of k8s-sidecar. A label is KEY=VALUE
// or, for any value, KEY. Candidates share labels, and do not hold them.
type chosen struct {
	labels map[string]bool // of candidates, and whether they alone choose
	by     map[string][]choice
	count  int // of selectors
}

// choice is a selector and its text.
type choice struct {
	labels.Selector
	text string
}

// add adds the labels of a candidate that do not show by themselves that it is used.
func (c *chosen) add(all labels.Set) {
	for key, value := range all {
		for _, label := range []string{key, key + "=" + value} {
			if _, ok := c.labels[label]; !ok && !program(key) {
				c.labels[label] = false
			}
		}
	}
}

// chooses reports whether an object chooses a candidate with these labels, and whether all of them
// were known when it was scanned.
func (c *chosen) chooses(all labels.Set) (yes, known bool) {
	yes, known = len(all) > maxLabels, true
	matches := func(by choice) bool { return by.Matches(all) }
	for key, value := range all {
		label := key + "=" + value
		chosen, ok := c.labels[label]
		known = known && (ok || program(key))
		yes = yes || chosen || c.labels[key] || slices.ContainsFunc(c.by[key], matches) || slices.ContainsFunc(c.by[label], matches)
	}
	return yes, known
}

// runs reports whether a built-in kind runs containers.
func runs(kind schema.GroupKind) bool {
	return kind.Group == "apps" || kind.Group == "batch" || kind.Group == "" && (kind.Kind == "Pod" || kind.Kind == "ReplicationController")
}

// setBased is a part of a selector that is not KEY=VALUE.
var setBased = regexp.MustCompile(`[-\w./]+ +(not)?in \([^()]*\)`)

// expected reports whether the text of a field, variable or option is a selector. Fields such as
// jobLabel and targetLabel name the labels of metrics.
func expected(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "selector") || strings.HasPrefix(name, "-") && strings.Contains(name, "label") || name == "-l"
}

// text notes the labels in a text, such as --label=config, app=web or app in (web). An everyday key
// alone counts where a selector is expected: LABEL=app.
func (c *chosen) text(text string, expected bool) {
	if strings.Contains(text, "in (") {
		text = setBased.ReplaceAllStringFunc(text, func(match string) string {
			if parsed, err := metav1.ParseToLabelSelector(match); err == nil {
				content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(parsed)
				c.selector(content)
				return ""
			}
			return match // It may be a template.
		})
	}
	for word := range strings.FieldsFuncSeq(text, endsLabel) {
		key, part := "", ""
		for more := true; more; {
			part, word, more = strings.Cut(word, "=")
			if part = strings.Trim(part, "-._/"); part == "" {
				continue
			}
			value := key != ""
			if value {
				c.choose(key + "=" + part)
			}
			key = ""
			if _, ok := c.labels[part]; ok {
				key = part
				if expected && !value && !more || !slices.Contains(everyday, key) {
					c.choose(key)
				}
			}
		}
	}
}

// choose notes that an object chooses all candidates with a label.
func (c *chosen) choose(label string) {
	if _, ok := c.labels[label]; ok {
		c.labels[label] = true
		delete(c.by, label)
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
	var needs []string
	need := func(label string) {
		if chosen, ok := c.labels[label]; ok && !chosen {
			needs = append(needs, label)
		}
	}
	for key, value := range equal {
		text, ok := value.(string)
		switch _, known := c.labels[key+"="+text]; {
		case !ok, strings.ContainsFunc(text, endsLabel): // a template, such as {{ app }}
			need(key)
		case !known:
			return
		default:
			need(key + "=" + text)
		}
	}
	for _, item := range expressions {
		expression, _ := item.(map[string]any)
		key, _ := expression["key"].(string)
		need(key)
	}
	if len(needs) == 0 {
		return
	}
	parsed := &metav1.LabelSelector{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, parsed)
	selector, invalid := metav1.LabelSelectorAsSelector(parsed)
	alone := len(equal) == 1 && len(expressions) == 0 || err != nil || invalid != nil // It may become valid.
	text := fmt.Sprint(selector)
	for _, label := range needs {
		choices := c.by[label]
		switch {
		case slices.ContainsFunc(choices, func(by choice) bool { return by.text == text }):
		case alone, len(choices) == maxOfLabel, c.count == maxSelectors:
			c.choose(label)
		default:
			c.by[label] = append(choices, choice{selector, text})
			c.count++
		}
	}
}
