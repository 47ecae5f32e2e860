package cleanup

import (
	"strings"

	"curfew.dev/curfew/policy/v1alpha1"
)

// onlyName is the one name that a rule matches; empty if it may match others.
func onlyName(rule *v1alpha1.ResourceRule) string {
	if len(rule.ResourceNames) != 1 || strings.ContainsAny(rule.ResourceNames[0], "*?") {
		return ""
	}
	return rule.ResourceNames[0]
}

// matchesName reports whether a rule matches an object's name, and whether it spells the name out.
func matchesName(rule *v1alpha1.ResourceRule, name string) (matches, exact bool) {
	if len(rule.ResourceNames) == 0 {
		return true, false
	}
	for _, pattern := range rule.ResourceNames {
		if pattern == name {
			return true, true
		}
		matches = matches || glob(pattern, name)
	}
	return matches, false
}

// glob matches a name with a pattern, in which * is any number of characters and ? is one. It takes
// at most length of pattern times length of name steps.
func glob(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0: // Let the last * take one more character.
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
