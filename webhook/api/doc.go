// Package api serves what is asked of Curfew over plain HTTP: whether it is alive and ready, and,
// where [Decisions] are mounted on the router that [New] returns, what admission would say of
// manifests, for CI and editors.
//
// Every request passes the same few layers (router.go): a panic becomes a problem document, the
// body is bounded, and the handler's context ends in time. Errors are problem documents
// (router.go, RFC 9457). [Server] runs the router until its context ends and then lets requests
// under way finish.
//
// A request for a decision passes five more, one a file: its parameters are read (query.go), it
// takes one of a few slots (router.go), the API server finds the user of its token
// (auth.go) and what that user may do (auth.go), and the formats of body and answer
// are agreed on (negotiate.go). Then package lint reads and judges the manifests, by the scopes and
// settings of the webhooks (decisions.go), and decisions.go or decisions.go writes the answer. With
// ?offline=true the cluster is not asked and no token is needed. openapi.json describes all of it;
// tests hold routes and answers to it.
package api
