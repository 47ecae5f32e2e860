// Package api serves the answers of admission about manifests, for CI and editors.
//
// A panic becomes a problem document (RFC 9457), as all errors are (router.go). A request for a
// decision passes these steps (decisions.go), within ten seconds: its parameters are read
// (negotiate.go), the API server authenticates its token and authorizes its user (auth.go), it takes
// one of a few slots, and the formats of body and answer are agreed on (negotiate.go). Then package
// lint reads and judges the manifests, by the scopes and settings of the webhooks.
// With ?offline=true the cluster is not asked and no token is needed. openapi.json describes all of
// it; tests compare routes and answers with it.
package api
