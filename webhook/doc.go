// Package webhook is the edge between the API server's admission requests and package policy.
//
// Its endpoints are handlers of controller-runtime's webhook server: mutate.go fills in defaults with a
// small patch, namespace.go keeps Curfew's own keys on Namespaces, validate.go asks the rules about
// objects, policy.go about policies. Each decodes the object once and reads it into facts
// (request.go). The object's context is read: its namespace, the policies and the runtime that it
// uses (source.go, policy/platform). Package policy decides, and a named constructor turns the
// decision into the answer (response.go). access.go asks for the permissions of users.
//
// Around each endpoint, load.go bounds memory and time, and guard.go makes an error inside Curfew a
// failed call (S8).
package webhook
