package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// filters are match and exclude of Kyverno's cleanup policies.
type filters struct {
	Any []filter `json:"any"`
	All []filter `json:"all"`
}

type filter struct {
	Resources resources `json:"resources"`
}

// resources are what an object must match, all of it.
type resources struct {
	Kinds             []string              `json:"kinds"`
	Name              string                `json:"name"`
	Names             []string              `json:"names"`
	Namespaces        []string              `json:"namespaces"`
	Annotations       map[string]string     `json:"annotations"`
	Selector          *metav1.LabelSelector `json:"selector"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	// Operations of a request: a cleanup run has no request.
	Operations []string `json:"operations"`
}

// names are the patterns of names, old field included.
func (r *resources) names() []string {
	out := slices.Clone(r.Names)
	if r.Name != "" {
		out = append(out, r.Name)
	}
	return out
}

// rules are the kinds with the names. The draft loses a name that is no kind.
func (d *draft) rules(path string, r *resources) []v1alpha1.ResourceRule {
	var out []v1alpha1.ResourceRule
	for i, kind := range r.Kinds {
		resourceRule, note, reason := rule(kind)
		field := fmt.Sprintf("%s.kinds[%d]", path, i)
		if reason != "" {
			d.lost(field, "%q %s", kind, reason)
			continue
		}
		if note != "" {
			d.note(field, "%q: %s", kind, note)
		}
		resourceRule.ResourceNames = r.names()
		out = append(out, resourceRule)
	}
	return out
}

// selects reports whether the API server can select the labels: they have no wildcards of Kyverno.
func selects(selector *metav1.LabelSelector) bool {
	return selector == nil || !strings.ContainsAny(fmt.Sprint(selector.MatchLabels), "*?")
}

// match takes over one filter of match.
func (d *draft) match(path string, r *resources) {
	match := &d.spec.MatchConstraints
	match.ResourceRules = d.rules(path, r)
	if len(r.Kinds) == 0 {
		d.lost(path+".kinds", "is empty: name the kinds")
	}
	match.ObjectSelector, match.NamespaceSelector = r.Selector, r.NamespaceSelector
	if !selects(r.Selector) {
		match.ObjectSelector = nil
		if labels, err := selectorCode(r.Selector); err != nil {
			d.lost(path+".selector", "%v", err)
		} else {
			d.condition("selector", strings.Join(labels, " && "))
		}
	}
	if !selects(r.NamespaceSelector) {
		match.NamespaceSelector = nil
		d.lost(path+".namespaceSelector", "wildcards in the labels of namespaces are not supported")
	}
	if d.namespaced && r.NamespaceSelector != nil {
		d.lost(path+".namespaceSelector", "a policy of one namespace has none")
		match.NamespaceSelector = nil
	}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		d.condition("annotation", annotation(key, r.Annotations[key]))
	}
	d.namespaces(path, r.Namespaces)
}

// namespaces restricts the policy to namespaces, by their label if no name has a wildcard.
func (d *draft) namespaces(path string, names []string) {
	match := &d.spec.MatchConstraints
	switch {
	case len(names) == 0:
	case d.matches("namespaces"): // Namespaces themselves.
		d.condition("namespaces", anyOf(namespaceOf, names))
	case d.namespaced || slices.ContainsFunc(names, func(n string) bool { return strings.ContainsAny(n, "*?") }):
		d.condition("namespaces", anyOf(`object.metadata.?namespace.orValue("")`, names))
	default:
		match.NamespaceSelector = inNamespaces(match.NamespaceSelector, names)
	}
}

// matches reports whether a rule names a resource.
func (d *draft) matches(resource string) bool {
	return slices.ContainsFunc(d.spec.MatchConstraints.ResourceRules, func(r v1alpha1.ResourceRule) bool {
		return slices.Contains(r.Resources, resource)
	})
}

// selectorCode is a label selector in CEL.
func selectorCode(selector *metav1.LabelSelector) ([]string, error) {
	if selector == nil {
		return nil, nil
	}
	var out []string
	for _, requirement := range both(&metav1.LabelSelector{}, selector).MatchExpressions {
		if strings.ContainsAny(requirement.Key, "*?") {
			return nil, fmt.Errorf("wildcards in the keys of labels are not supported")
		}
		label := fmt.Sprintf("object.metadata.?labels[?%q]", requirement.Key)
		present, value := label+".hasValue()", label+`.orValue("")`
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn:
			out = append(out, present, anyOf(value, requirement.Values))
		case metav1.LabelSelectorOpNotIn:
			out = append(out, fmt.Sprintf("!(%s && %s)", present, anyOf(value, requirement.Values)))
		case metav1.LabelSelectorOpExists:
			out = append(out, present)
		case metav1.LabelSelectorOpDoesNotExist:
			out = append(out, "!"+present)
		default:
			return nil, fmt.Errorf("operator %q of a selector is not known", requirement.Operator)
		}
	}
	return out, nil
}

// annotation is true for an annotation that matches a pattern of Kyverno.
func annotation(key, pattern string) string {
	if strings.ContainsAny(key, "*?") {
		return fmt.Sprintf("object.metadata.?annotations.orValue({}).exists(k, k.matches(%q) && %s)", wildcard(key),
			anyOf("object.metadata.annotations[k]", []string{pattern}))
	}
	value := fmt.Sprintf("object.metadata.?annotations[?%q]", key)
	return "(" + value + ".hasValue() && " + anyOf(value+`.orValue("")`, []string{pattern}) + ")"
}

// anyOf is true for a text that is one of the values, or matches one with a wildcard.
func anyOf(text string, values []string) string {
	var exact, out []string
	for _, value := range values {
		if strings.ContainsAny(value, "*?") {
			out = append(out, fmt.Sprintf("%s.matches(%q)", text, wildcard(value)))
		} else {
			exact = append(exact, strconv.Quote(value))
		}
	}
	switch {
	case len(exact) == 1:
		out = append([]string{text + " == " + exact[0]}, out...)
	case len(exact) > 1:
		out = append([]string{text + " in [" + strings.Join(exact, ", ") + "]"}, out...)
	}
	if len(out) == 1 {
		return out[0]
	}
	return "(" + strings.Join(out, " || ") + ")"
}

// equals is true for a part of what Kyverno takes for equal: it also compares quantities, durations,
// and texts with numbers.
func equals(key code, value any) (string, error) {
	text, isText := value.(string)
	switch {
	case key.typ == typBool:
		return boolean(key, value, true)
	case key.typ == typDuration || key.typ == typTime:
		return "", fmt.Errorf("%s is compared by an order only", key.text)
	case isText && strings.ContainsAny(text, "*?") && !word.MatchString(text):
		return "", fmt.Errorf("%q may match a number, and Kyverno compares numbers in another way: begin it with a letter", text)
	case isText && strings.ContainsAny(text, "*?"):
		return fmt.Sprintf("%s.matches(%q)", key.text, wildcard(text)), nil
	case isText && isInteger(text) && key.typ != typString:
		return "", fmt.Errorf("%q may be a text or a number: write a number without quotes", text)
	}
	other, err := literalCode(value)
	if value == nil {
		err = fmt.Errorf("a value of null is not supported")
	}
	return key.text + " == " + other.text, err
}

// notEquals is never true for a key of another type, as in Kyverno.
func notEquals(key code, value any) (string, error) {
	other, err := literalCode(value)
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case bool:
		if key.typ == typBool {
			return boolean(key, value, false)
		}
		return fmt.Sprintf("%s == %t", key.text, !v), nil
	case int64:
		return fmt.Sprintf("(type(%[1]s) == int && %[1]s != %[2]s)", key.text, other.text), nil
	case []any:
		return fmt.Sprintf("(type(%[1]s) == list && %[1]s != %[2]s)", key.text, other.text), nil
	case string:
		return notEqualsText(key, v)
	}
	return "", fmt.Errorf("a value of null or with a fraction is not supported")
}

// notEqualsText is false for a key that may be a number, quantity or duration: Kyverno compares
// these by their value.
func notEqualsText(key code, value string) (string, error) {
	switch {
	case key.typ != typAny && key.typ != typString:
		return "", fmt.Errorf("%s is not a string", key.text)
	case value != "" && !word.MatchString(value):
		return "", fmt.Errorf("%q is not a text that begins with a letter", value)
	}
	text := fmt.Sprintf("%s != %q", key.text, value)
	if strings.ContainsAny(value, "*?") {
		text = fmt.Sprintf("!%s.matches(%q)", key.text, wildcard(value))
	}
	return fmt.Sprintf(`(type(%[1]s) == string && !%[1]s.matches("^[-+.0-9]") && %[2]s)`, key.text, text), nil
}

// boolean compares a key that is true or false.
func boolean(key code, value any, equal bool) (string, error) {
	want, ok := value.(bool)
	if !ok {
		return "", fmt.Errorf("%s is true or false, and the value is neither", key.text)
	}
	if want == equal {
		return key.text, nil
	}
	return "!(" + key.text + ")", nil
}

// in compares a text with a list. Kyverno reads a key of most of these operators as a pattern, too,
// and compares the elements of a key that is a list: such objects are kept.
func in(key code, operator string, value any) (string, error) {
	items, ok := value.([]any)
	if !ok || len(items) == 0 {
		return "", fmt.Errorf("operator %s is supported with a list of values only", operator)
	}
	if key.typ != typAny && key.typ != typString {
		return "", fmt.Errorf("%s is not a string", key.text)
	}
	var values []string
	for _, element := range items {
		text, ok := element.(string)
		if !ok || isInteger(text) && key.typ == typAny {
			return "", fmt.Errorf("operator %s is supported with a list of texts only", operator)
		}
		if strings.ContainsAny(text, "*?") {
			return "", fmt.Errorf("wildcards in a list are not supported")
		}
		values = append(values, text)
	}
	text := anyOf(key.text, values)
	if strings.Contains(operator, "Not") {
		text = fmt.Sprintf(`(type(%[1]s) == string && !%[1]s.matches("[*?]") && !(%[2]s))`, key.text, text)
	}
	return text, nil
}

// compare compares numbers, and the durations of time_since and time_diff.
func compare(key code, operator string, value any) (string, error) {
	text, isText := value.(string)
	seconds, isNumber := value.(int64)
	switch {
	case key.typ == typDuration && isText && isDuration(text) && text != "0":
		return fmt.Sprintf("%s %s duration(%q)", key.text, operator, text), nil
	case key.typ == typDuration && isNumber:
		return fmt.Sprintf(`%s %s duration("%ds")`, key.text, operator, seconds), nil
	case key.typ == typDuration:
		return "", fmt.Errorf("%q is not a duration such as 24h", fmt.Sprint(value))
	case key.typ != typAny && key.typ != typNumber:
		return "", fmt.Errorf("%s is not a number", key.text)
	case isText && isInteger(text):
		return key.text + " " + operator + " " + text, nil
	}
	other, err := literalCode(value)
	if err == nil && other.typ != typNumber {
		err = fmt.Errorf("%s is not a number", other.text)
	}
	return key.text + " " + operator + " " + other.text, err
}

var (
	integer = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)
	word    = regexp.MustCompile(`^[A-Za-z]`)
)

func isInteger(text string) bool { return integer.MatchString(text) }

// wildcard is a pattern with * and ? as a regular expression. Both match a newline, too, such as in
// an annotation of several lines.
func wildcard(pattern string) string {
	return "(?s)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) + "$"
}
