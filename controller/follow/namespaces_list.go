package follow

import (
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// All are all namespaces, by name.
func (n *Namespaces) All() []*policy.NamespacePolicy {
	return n.those(func(*policy.NamespacePolicy) bool { return true })
}

// Bounded are the namespaces with bounds, by name.
func (n *Namespaces) Bounded() []*policy.NamespacePolicy {
	return n.those(func(read *policy.NamespacePolicy) bool { return read.Bounds != (policy.Bounds{}) })
}

func (n *Namespaces) those(are func(*policy.NamespacePolicy) bool) []*policy.NamespacePolicy {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []*policy.NamespacePolicy
	for _, read := range n.known {
		if are(read) {
			out = append(out, read)
		}
	}
	slices.SortFunc(out, func(a, b *policy.NamespacePolicy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// InUse are the namespaces that carry annotations of Curfew.
func (n *Namespaces) InUse() []string {
	var out []string
	for _, read := range n.those(usesCurfew) {
		out = append(out, read.Name)
	}
	return out
}
