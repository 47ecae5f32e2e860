// Package platform puts together what the platform says at one moment: the profiles of kinds, those that come with Curfew and
// KindProfiles, and the LifecyclePolicies.
//
// A [Store] takes the objects as they come and go, compiles each once a generation (policy/expression) and makes a [Snapshot] of
// all of them, in which nothing is changed any more; whoever answers a question takes one and keeps to it. [Snapshot.With] lays
// further objects over it, such as those that a user posts to find out what they would do. [Snapshot.Scope] gathers what holds for
// one object in its namespace; whoever asks reads the runtime that it uses, since nothing is read here.
package platform
