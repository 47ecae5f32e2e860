// Package api serves what is asked of Curfew over plain HTTP: whether it is alive and ready, and, on the router that [New]
// returns, the decisions of admission for CI and editors.
//
// Every request passes the same few layers (router.go): a panic becomes a problem document, the body is bounded, and the
// handler's context ends in time. Errors are problem documents (problem.go, RFC 9457). [Server] runs the router until its
// context ends and then lets requests under way finish.
package api
