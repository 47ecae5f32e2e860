// Package preview shows what a cleanup policy would delete, by the code of a run: package survey.
//
// [Of] surveys a cluster, as a [survey.Reader] shows it, or manifests ([Files]). A [Case] is a test
// of policies against manifests: what is expected to be deleted and kept, and when.
package preview
