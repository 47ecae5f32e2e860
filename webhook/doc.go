// Package webhook is the edge between the API server's admission requests and package policy.
//
// Each request takes five steps. Its raw JSON is decoded once, and read into facts (webhooks.go).
// The object's context is read: its namespace, the policies and the runtime that it uses
// (source.go, policy/platform). Package policy decides, and a named constructor turns the decision
// into the answer (response.go). The endpoints differ in their decisions: mutate.go fills in
// defaults with a small patch (mutate.go), and keeps Curfew's own keys on Namespaces. validate.go
// asks the rules about objects, policies.go about policies. access.go asks for the permissions of
// users.
//
// An error inside Curfew is never a denial (S8). It becomes an HTTP status (serve.go): the API
// server treats any AdmissionReview with allowed=false as a rejection, and only asks the failure
// policy if the call itself failed.
package webhook
