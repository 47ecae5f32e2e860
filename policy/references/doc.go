// Package references finds which objects are in use: ConfigMaps, Secrets, claims and classes that
// other objects name, Services that select Pods, and objects that refer to nothing. It is pure: the
// caller reads the objects.
//
// [Candidates] has the objects that may be deleted. [Candidates.Scan] takes the other objects of a
// cluster, one at a time, and notes which candidates each of them uses.
//
// An object names a candidate in any string, unless a field of a built-in kind is known to name
// something else (fields.go). Names that an operator puts together from the name of its own object
// count, too, and names that a program may know are unknown (made.go). Others choose a candidate by
// its labels (labels.go). A field that this package does not know counts, so that a new Kubernetes
// release keeps more objects and never fewer. [FoundBy] is how programs find objects that no other
// object names (found.go). selectors.go finds selected Pods, and dangling.go what a candidate
// refers to.
package references
