// Package platform is the one view of the settings that apply to objects: the profiles of kinds,
// the LifecyclePolicies, the installed versions, and the namespace and training runtime of one
// object.
//
// A [Store] takes the objects as they come and go and compiles each generation once
// (policy/expression). It hands out a [Snapshot], which is immutable and holds the one precedence
// of profiles (snapshot.go). [Snapshot.With] adds objects that a user wants to try. [ContextOf]
// gathers the context of one object from a [Source] (store.go, context.go). A source reads from a
// cache, live, from files or once; all sources give the same meaning to the objects they read.
package platform
