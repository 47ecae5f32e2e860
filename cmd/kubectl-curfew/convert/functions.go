package convert

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// call translates a function.
func (d dialect) call(n *node) (code, error) {
	if d == kyverno && strings.HasPrefix(n.text, "time_") {
		return d.timeCall(n)
	}
	want := map[string]int{"length": 1, "starts_with": 2, "ends_with": 2, "contains": 2, "regex_match": 2}[n.text]
	if want == 0 || n.text == "regex_match" && d != kyverno {
		return code{}, fmt.Errorf("function %s is not supported", n.text)
	}
	if len(n.args) != want {
		return code{}, fmt.Errorf("function %s has %d arguments, not %d", n.text, len(n.args), want)
	}
	args := make([]code, want)
	for i := range args {
		var err error
		if args[i], err = d.value(n.args[i]); err != nil {
			return code{}, err
		}
	}
	switch n.text {
	case "length":
		return code{"size(" + args[0].text + ")", typNumber}, nil
	case "starts_with":
		return code{args[0].text + ".startsWith(" + args[1].text + ")", typBool}, nil
	case "ends_with":
		return code{args[0].text + ".endsWith(" + args[1].text + ")", typBool}, nil
	case "regex_match":
		return code{args[1].text + ".matches(" + args[0].text + ")", typBool}, nil
	}
	within, item := args[0], args[1]
	switch within.typ {
	case typString:
		return code{within.text + ".contains(" + item.text + ")", typBool}, nil
	case typList:
		return code{item.text + " in " + within.text, typBool}, nil
	}
	return code{fmt.Sprintf("(type(%[1]s) == list ? %[2]s in %[1]s : %[1]s.contains(%[2]s))", within.text, item.text), typBool}, nil
}

// timeCall translates Kyverno's functions of time.
func (d dialect) timeCall(n *node) (code, error) {
	arg := func(i int) (string, error) {
		if i >= len(n.args) {
			return "", fmt.Errorf("function %s has too few arguments", n.text)
		}
		return d.time(n.args[i])
	}
	two := func(i, j int) (string, string, error) {
		first, err := arg(i)
		if err != nil {
			return "", "", err
		}
		second, err := arg(j)
		return first, second, err
	}
	switch n.text {
	case "time_now", "time_now_utc":
		return code{"now", typTime}, nil
	case "time_since":
		if len(n.args) != 3 || n.args[0].kind != kindLiteral || n.args[0].value != "" {
			return code{}, fmt.Errorf("time_since is supported without a layout only: time_since('', START, '')")
		}
		if end := n.args[2]; end.kind == kindLiteral && end.value == "" {
			start, err := arg(1)
			return code{"now - " + start, typDuration}, err
		}
		start, end, err := two(1, 2)
		return code{end + " - " + start, typDuration}, err
	case "time_diff":
		start, end, err := two(0, 1)
		return code{end + " - " + start, typDuration}, err
	case "time_after":
		first, second, err := two(0, 1)
		return code{first + " > " + second, typBool}, err
	case "time_before":
		first, second, err := two(0, 1)
		return code{first + " < " + second, typBool}, err
	case "time_add":
		start, err := arg(0)
		if err != nil {
			return code{}, err
		}
		if len(n.args) == 2 && n.args[1].kind == kindLiteral {
			if text, ok := n.args[1].value.(string); ok && isDuration(text) {
				return code{fmt.Sprintf("(%s + duration(%q))", start, text), typTime}, nil
			}
		}
		return code{}, fmt.Errorf("time_add is supported with a constant duration such as '4h' only")
	}
	return code{}, fmt.Errorf("function %s is not supported", n.text)
}

// time translates an argument that is an instant.
func (d dialect) time(n *node) (string, error) {
	value, err := d.value(n)
	switch {
	case err != nil:
		return "", err
	case value.typ == typTime:
		return value.text, nil
	case n.kind == kindLiteral && value.typ == typString && strings.HasPrefix(value.text, `"`):
		text, _ := strconv.Unquote(value.text)
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return "", fmt.Errorf("%q is not a time", text)
		}
	case value.typ != typString && value.typ != typAny:
		return "", fmt.Errorf("%s is not a time", value.text)
	}
	return "timestamp(" + value.text + ")", nil
}

// isDuration reports whether Kyverno and CEL read the text as a duration.
func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil
}
