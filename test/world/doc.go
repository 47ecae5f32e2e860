// Package world is a Kubernetes cluster in memory, for tests that drive all of Curfew.
//
// A [World] is an API server: it speaks the JSON of the real one to any client, as the
// [http.RoundTripper] of a [Client], without a socket. So it runs inside testing/synctest, where
// time passes only when everything waits. It has resourceVersions, UIDs, preconditions, finalizers,
// owners, propagation policies, status subresources, selectors, pages with snapshots, watches with
// bookmarks, and 409, 410 and 422 where the API server answers them. test/e2e/conformance sends the
// same random requests to it and to a real kube-apiserver, and compares the answers.
//
// [World.Run] runs the controllers that Curfew lives beside: garbage collector, Job controller,
// kubelet, namespace controller. [Client.Faults] decides what the network and the API server do to
// each request, [World.Freeze] makes a watch cache silent, [World.Compact] forgets history. All
// writes are in [World.History], from which package invariants judges what Curfew did.
package world
