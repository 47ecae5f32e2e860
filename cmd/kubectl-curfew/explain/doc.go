// Package explain says when an object is deleted, why, and what blocks it. [Command] explains
// objects of the cluster (explain.go) or of manifests (file.go), and admission rules (rule.go).
//
// The answer begins with a summary (summary.go), goes on with all levels of precedence (output.go)
// and ends with commands that would change the expiry (advice.go). Programs read the same as [Item]
// (output.go).
package explain
