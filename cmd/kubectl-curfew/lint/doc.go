// Package lint shows what admission would reject, warn about and fill in for manifests. It judges
// by package policy/lint, or asks the API server for a dry run (server.go).
package lint
