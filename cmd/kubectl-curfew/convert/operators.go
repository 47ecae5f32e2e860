package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

func equals(key code, value any) (string, error) {
	if key.typ == typBool {
		return boolean(key, value, true)
	}
	text, isText := value.(string)
	if inner, ok := variable(text); isText && ok {
		n, err := parseJMESPath(inner)
		if err != nil {
			return "", err
		}
		other, err := kyverno.value(n)
		return key.text + " == " + other.text, err
	}
	switch {
	case key.typ == typDuration || key.typ == typTime:
		return compare(key, "==", value)
	case isText && strings.ContainsAny(text, "*?"):
		return fmt.Sprintf("%s.matches(%q)", key.text, wildcard(text)), nil
	case isText && isInteger(text) && key.typ != typString:
		return fmt.Sprintf("double(%s) == %s.0", key.text, text), nil
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
	case int64, float64:
		return fmt.Sprintf("(%[1]s < %[2]s || %[1]s > %[2]s)", key.text, other.text), nil
	case []any:
		if key.typ == typList {
			return key.text + " != " + other.text, nil
		}
		return fmt.Sprintf("(type(%[1]s) == list && %[1]s != %[2]s)", key.text, other.text), nil
	case string:
		return notEqualsText(key, v)
	}
	return "", fmt.Errorf("a value of null is not supported")
}

func notEqualsText(key code, value string) (string, error) {
	_, quantity := resource.ParseQuantity(value)
	_, isVariable := variable(value)
	switch {
	case isVariable:
		return "", fmt.Errorf("a variable as value of NotEquals is not supported")
	case key.typ != typAny && key.typ != typString:
		return "", fmt.Errorf("%s is not a string", key.text)
	case isInteger(value):
		return fmt.Sprintf("double(%s) != %s.0", key.text, value), nil
	case quantity == nil || isDuration(value):
		return "", fmt.Errorf("NotEquals with a quantity or duration is not supported")
	}
	text := fmt.Sprintf("%s != %q", key.text, value)
	if strings.ContainsAny(value, "*?") {
		text = fmt.Sprintf("!%s.matches(%q)", key.text, wildcard(value))
	}
	if key.typ == typString {
		return text, nil
	}
	return fmt.Sprintf("(type(%s) == string && %s)", key.text, text), nil
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

func in(key code, operator string, value any) (string, error) {
	items, ok := value.([]any)
	if text, isText := value.(string); isText && simple.MatchString(text) {
		items, ok = []any{text}, true
	}
	if !ok || len(items) == 0 {
		return "", fmt.Errorf("operator %s is supported with a list of values only", operator)
	}
	var exact, alternatives []string
	item := "x"
	if key.typ != typList {
		item = "string(" + key.text + ")"
	}
	for _, one := range items {
		switch v := one.(type) {
		case string:
			if _, isVariable := variable(v); isVariable {
				return "", fmt.Errorf("a variable in a list is not supported")
			}
			if strings.ContainsAny(v, "*?") {
				alternatives = append(alternatives, fmt.Sprintf("%s.matches(%q)", item, wildcard(v)))
				continue
			}
			exact = append(exact, strconv.Quote(v))
		case int64:
			exact = append(exact, strconv.Quote(strconv.FormatInt(v, 10)))
		default:
			return "", fmt.Errorf("operator %s is supported with a list of strings only", operator)
		}
	}
	if len(exact) > 0 {
		alternatives = append([]string{item + " in [" + strings.Join(exact, ", ") + "]"}, alternatives...)
	}
	return quantify(key, operator, "("+strings.Join(alternatives, " || ")+")"), nil
}

// quantify applies the operator to a single value, or to the elements of a list.
func quantify(key code, operator, text string) string {
	negative := strings.Contains(operator, "Not")
	if negative {
		text = "!" + text
	}
	switch {
	case key.typ != typList:
		return text
	case operator == "AnyIn", operator == "AnyNotIn":
		return fmt.Sprintf("%s.exists(x, %s)", key.text, text)
	default:
		return fmt.Sprintf("(size(%[1]s) > 0 && %[1]s.all(x, %[2]s))", key.text, text)
	}
}

func compare(key code, operator string, value any) (string, error) {
	text, isText := value.(string)
	if inner, ok := variable(text); isText && ok {
		n, err := parseJMESPath(inner)
		if err != nil {
			return "", err
		}
		other, err := kyverno.value(n)
		if err == nil && key.typ == typTime && other.typ != typTime {
			err = fmt.Errorf("%s is not a time", other.text)
		}
		return key.text + " " + operator + " " + other.text, err
	}
	seconds, isNumber := value.(int64)
	switch {
	case key.typ == typDuration && isText && isDuration(text):
		return fmt.Sprintf("%s %s duration(%q)", key.text, operator, text), nil
	case key.typ == typDuration && isNumber:
		return fmt.Sprintf(`%s %s duration("%ds")`, key.text, operator, seconds), nil
	case key.typ == typDuration, key.typ == typTime:
		return "", fmt.Errorf("%q is not a duration such as 24h", fmt.Sprint(value))
	case key.typ == typBool, key.typ == typList:
		return "", fmt.Errorf("%s has no order", key.text)
	case isText && isInteger(text):
		return key.text + " " + operator + " " + text, nil
	case isText && isDuration(text):
		return fmt.Sprintf("duration(%s) %s duration(%q)", key.text, operator, text), nil
	case isText:
		return "", fmt.Errorf("%q is neither a number nor a duration", text)
	}
	other, err := literalCode(value)
	if err == nil && other.typ != typNumber {
		err = fmt.Errorf("%s is not a number", other.text)
	}
	return key.text + " " + operator + " " + other.text, err
}

var (
	integer = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)
	simple  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/]*$`)
)

func isInteger(text string) bool { return integer.MatchString(text) }

// wildcard is a pattern with * and ? as a regular expression.
func wildcard(pattern string) string {
	return "^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) + "$"
}
