// Package api serves plain HTTP: whether Curfew is alive and ready and, with [Decisions] mounted on
// the router that [New] returns, the answers of admission about manifests, for CI and editors.
//
// Every request passes the same few layers (router.go): a panic becomes a problem document, the
// body is bounded, and the handler's context ends in time. Errors are problem documents (router.go,
// RFC 9457). [Server] runs the router until its context ends and then lets requests under way
// finish.
//
// A request for a decision passes five more layers: its parameters are read (negotiate.go), it
// takes one of a few slots (router.go), the API server authenticates its token and authorizes its
// user (auth.go), and the formats of body and answer are agreed on (negotiate.go). Then package
// lint reads and judges the manifests, by the scopes and settings of the webhooks (decisions.go).
// With ?offline=true the cluster is not asked and no token is needed. openapi.json describes all of
// it; tests compare routes and answers with it.
package api
