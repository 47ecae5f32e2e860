package judging

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Protects reports whether one of some names and patterns, such as openshift-*, is a namespace's.
// Curfew deletes nothing there and gives no default of any form.
func Protects(patterns []string, namespace string) bool {
	return namespace != "" && slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return matched || err != nil // A pattern that cannot be read may be the namespace's (S6).
	})
}

// IsPattern reports whether one of the names that [Protects] takes stands for several namespaces.
func IsPattern(name string) bool { return strings.Contains(name, "*") }

// ProtectedRequest asks, as a match condition of a webhook, whether a request is for a namespace of
// patterns; "" without any.
func ProtectedRequest(patterns []string) string {
	var names, likes, terms []string
	for _, pattern := range patterns {
		if IsPattern(pattern) {
			likes = append(likes, strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*"))
		} else {
			names = append(names, strconv.Quote(pattern))
		}
	}
	if len(names) > 0 {
		terms = append(terms, `request.?namespace.orValue("") in [`+strings.Join(names, ", ")+"]")
	}
	if len(likes) > 0 {
		terms = append(terms, `request.?namespace.orValue("").matches(`+strconv.Quote("^("+strings.Join(likes, "|")+")$")+")")
	}
	return strings.Join(terms, " || ")
}
