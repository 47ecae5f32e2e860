// Package webhook is the edge between the API server's admission requests and package policy.
//
// A request walks five steps, whichever of the four paths it comes in by. Its raw JSON is decoded once (request.go) and
// read into facts; what surrounds the object is gathered (scope.go, with the namespaces' annotations from a cache of
// metadata, namespaces.go); policy decides; and a named constructor (response.go) turns the decision into the answer. What
// the paths differ in is the third and fourth step: mutate.go fills in defaults with a patch built by hand (patch.go),
// validate.go asks the rules, namespace.go keeps Curfew's own keys on namespaces and validates their annotations.
//
// An error inside Curfew is never a denial: it becomes an HTTP status (serve.go), because the API server takes any
// AdmissionReview with allowed=false for a rejection and asks the failure policy only where the call itself failed
// (invariant S8).
package webhook
