// Package references finds the ConfigMaps, Secrets and ServiceAccounts that other objects name. It
// is pure: the caller reads the objects.
//
// [Candidates] has the names of the objects that may be deleted. [Candidates.Scan] takes the other
// objects of a cluster, one at a time, and notes which candidates each of them names: in any
// string, unless a field of a built-in kind is known to name something else (fields.go). Names that
// an operator puts together from the name of its own object count, too. A field
// that this package does not know counts, so that a new Kubernetes release keeps more objects and
// never fewer. [FoundBy] is how programs find objects that no other object names (found.go).
package references
