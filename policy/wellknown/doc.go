// Package wellknown holds the names by which Curfew and its users find each other: the annotations
// and labels of Curfew, its finalizer, and the names of other projects that it reads. It also lists
// the keys that make an object or a namespace concern Curfew.
package wellknown
