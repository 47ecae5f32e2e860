// Package lint answers for manifests what admission would answer for the objects that they make: what would be filled in,
// refused and warned about, without a cluster if need be.
//
// A file or request body is a [Source]. [Read] cuts it into documents (split.go), bounds and parses them (read.go, parse.go)
// and takes lists apart, so that each [Document] is one object with the line it stands on. [Lint] first learns from the
// documents that speak about others, such as a Namespace (world.go, one lesson a file), then walks each object through the
// two steps of admission in their order: package policy fills in defaults, policy/rules looks at the outcome. A [Result]
// can be written as YAML that keeps the author's order and comments (manifest.go); a [Report] is all results as command line
// and HTTP endpoints show them.
//
// What differs from admission: pod templates are read raw, so that a ttlSecondsAfterFinished in there is found, which the API
// server drops before any webhook sees it; and Namespaces are judged but not stamped, because the in-use labels and
// default-since are kept in the cluster and have no place in a manifest.
package lint
