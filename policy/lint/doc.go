// Package lint gives the answers of admission about the objects of manifests: their defaults,
// denials and warnings, without a cluster if need be.
//
// A file or request body is an [Input]. [Read] splits it into documents (read.go), limits and
// parses them (read.go, parse.go) and takes lists apart, so that each [Document] is one object with
// its line. [Lint] first reads the documents that are context for others, such as a Namespace
// (world.go), then takes each object through the two steps of admission in their order: package
// policy fills in defaults, policy/rules checks the outcome. A [Result] can be written as YAML that
// keeps the author's order and comments (manifest.go). A [Report] has all results, for the command
// line and the HTTP endpoints.
//
// Two things differ from admission. Pod templates are read raw, so that a ttlSecondsAfterFinished
// in one is found, which the API server drops before any webhook sees it. And Namespaces are judged
// but not stamped, because the in-use labels and default-since are kept in the cluster and do not
// belong in a manifest.
package lint
