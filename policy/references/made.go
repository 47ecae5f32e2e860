package references

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// made are the objects whose names other names may be made from. An operator puts names together
// from the name of its object, such as DATABASE-credentials: the object uses the candidates that
// have its name as a part, between dots and dashes. It does so in its namespace or, if it is
// cluster-scoped, in all. StatefulSets, also from other API groups, keep their claims when they are
// scaled down: VOLUME-NAME-0. The value is whether the object is one of an operator.
type made map[location]bool

// maxMade bounds the memory of [made]. Tests make it smaller.
var maxMade = 1_000_000

// anywhere stands for all namespaces, as for a cluster-scoped object, and is the name of none.
const anywhere = "*"

// scanName notes the name of an object that others may be made from. A cluster-scoped candidate may
// be made from a name of any namespace.
func (c *Candidates) scanName(kind schema.GroupKind, at location) {
	operator := !BuiltIn(kind.Group)
	if !operator && kind.Kind != "StatefulSet" || len(c.made) >= maxMade {
		return
	}
	in := at.namespace
	if in == "" {
		in = anywhere
	}
	if in == anywhere || c.namespaces[in] {
		c.made.add(location{in, at.name}, operator)
	}
	if in != anywhere && operator && c.namespaces[""] {
		c.made.add(location{"", at.name}, operator)
	}
}

func (m made) add(at location, operator bool) { m[at] = m[at] || operator }

// from reports whether the name of a candidate may be made from another one.
func (m made) from(one *candidate) bool {
	if len(m) == 0 {
		return false
	}
	for part, within := range parts(one.name) {
		for _, in := range []string{one.namespace, anywhere} {
			if operator, ok := m[location{in, part}]; operator || ok && within && one.kind.Kind == claimKind {
				return true
			}
		}
	}
	return false
}

// parts are the parts of a name that dots and dashes separate, alone and together, and whether the
// name goes on before and after them.
func parts(name string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		ends := []int{}
		for i := range len(name) {
			if name[i] == '-' || name[i] == '.' {
				ends = append(ends, i)
			}
		}
		ends = append(ends, len(name))
		start := 0
		for i, next := range ends {
			for _, end := range ends[i:] {
				if !yield(name[start:end], start > 0 && end < len(name)) {
					return
				}
			}
			start = next + 1
		}
	}
}
