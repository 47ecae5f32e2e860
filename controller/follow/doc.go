// Package follow keeps local copies of the objects that decide how others are treated (policies,
// profiles, namespaces and such), and reports their changes.
//
// A [Mirror] (mirror.go) follows one small kind; a kind that is not served has no objects until it
// is. [Platform] (platform.go) follows policies, profiles, kinds and training runtimes, and keeps a
// platform.Store current. [Namespaces] follows the namespaces. [Cached] answers from both, and
// [Cached.Live] from the API server (source.go). Every replica follows; one of them writes statuses
// (status.go) and stamps (stamps.go).
package follow
