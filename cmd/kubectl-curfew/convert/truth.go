package convert

import (
	"fmt"
	"slices"
)

// truth translates an expression to what JMESPath takes it for: null, false and what is empty are
// false.
func (d dialect) truth(n *node) (string, error) {
	switch n.kind {
	case kindNot:
		if mentionsContext(n.args[0]) {
			return "", fmt.Errorf("the opposite of _context is not supported")
		}
		inner, err := d.truth(n.args[0])
		return "!(" + inner + ")", err
	case kindAnd, kindOr:
		left, err := d.truth(n.args[0])
		if err != nil {
			return "", err
		}
		right, err := d.truth(n.args[1])
		if left == right {
			return left, err
		}
		if n.kind == kindAnd {
			return left + " && " + right, err
		}
		return "(" + left + " || " + right + ")", err
	case kindCompare:
		left, err := d.value(n.args[0])
		if err != nil {
			return "", err
		}
		right, err := d.value(n.args[1])
		return left.text + " " + n.text + " " + right.text, err
	}
	return d.truthOfValue(n)
}

func (d dialect) truthOfValue(n *node) (string, error) {
	if d == janitor && isContext(n) {
		return "!lookup.mounted", nil
	}
	if path, err := d.anyPath(n); err == nil && typOf(path) == typString {
		if alwaysThere(path) {
			return "true", nil
		}
		return optional(path) + `.orValue("") != ""`, nil
	}
	value, err := d.value(n)
	if err != nil || value.typ == typBool {
		return value.text, err
	}
	if value.typ == typNumber || value.typ == typTime || value.typ == typDuration {
		return "true", nil
	}
	return truthy(value.text), nil
}

// anyPath is path for nodes that may be anything.
func (d dialect) anyPath(n *node) ([]step, error) {
	if n.kind > kindFlatten {
		return nil, fmt.Errorf("not a path")
	}
	return d.path(n)
}

func truthy(text string) string {
	return "!(" + text + ` in [dyn(null), dyn(false), dyn(""), dyn([]), dyn({})])`
}

// isContext recognizes what kube-janitor adds to PersistentVolumeClaims. To Curfew's lookup, a
// claim is in use if either of them says so: it deletes less.
func isContext(n *node) bool {
	return n.kind == kindField && len(n.args) == 1 && n.args[0].kind == kindField && n.args[0].text == "_context" &&
		len(n.args[0].args) == 0 && (n.text == "pvc_is_not_mounted" || n.text == "pvc_is_not_referenced")
}

func mentionsContext(n *node) bool {
	return n.kind == kindField && n.text == "_context" || slices.ContainsFunc(n.args, mentionsContext)
}
