// Package webhook is the edge between the API server's admission requests and package policy.
//
// Each request takes five steps. Its raw JSON is decoded once (webhooks.go) and read into facts. The
// object's context is read: its namespace, the policies and the runtime that it uses (source.go,
// policy/platform). Package policy decides, and a named constructor turns
// the decision into the answer (response.go). The endpoints differ in what they decide: mutate.go
// fills in defaults with a small patch (patch.go), source.go gives Pods that a PodTally counts their
// finalizer, validate.go asks the rules, and mutate.go keeps Curfew's own keys on namespaces.
//
// An error inside Curfew is never a denial (S8). It becomes an HTTP status (serve.go): the API
// server treats any AdmissionReview with allowed=false as a rejection, and only asks the failure
// policy if the call itself failed.
package webhook
