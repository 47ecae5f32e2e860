// Package follow keeps local copies of what decides how objects are treated, and reports what changes.
//
// A [Mirror] (mirror.go) follows one small kind; a kind that is not served has no objects until it is. [Policies] follows the
// LifecyclePolicies and writes their status (status.go). [Runtimes] reads training runtimes. Both answer the feeds, from the copy
// or live.
package follow
