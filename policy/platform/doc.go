// Package platform is the one view of what decides how objects are treated: the profiles of kinds,
// the LifecyclePolicies, which versions are installed, and what the namespace and the training
// runtime of one object say.
//
// A [Store] takes the objects as they come and go and compiles each generation once
// (policy/expression). It hands out a [Snapshot], which is immutable and holds the one precedence
// of profiles (snapshot.go). [Snapshot.With] adds objects that somebody wants to try. [ContextOf]
// gathers the context of one object from a [Source] (source.go, context.go). Sources differ in
// where they read, from a cache, live, from files or once; what they read means the same to all.
package platform
