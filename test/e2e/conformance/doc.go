// Package conformance sends the same random requests to package world and to a real kube-apiserver,
// and compares the answers: status code, reason, and the object without its UIDs, resourceVersions
// and times. A difference is a fault of package world: a test on it may have proved something about
// no real API server.
package conformance
