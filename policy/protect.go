package policy

import (
	"path"
	"slices"
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
