// Package testcases runs tests of cleanup policies against manifests: kubectl curfew test.
package testcases
