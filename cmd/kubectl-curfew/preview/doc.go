// Package preview shows what a cleanup policy would delete, by the code of a run: package survey.
//
// [Of] surveys a cluster, as a [survey.Reader] shows it, or manifests ([Files]). A [Case] is a test
// of policies against manifests: which objects a run deletes and keeps, and when. [Runs] are the
// next runs of all policies, for the commands that list or explain objects.
package preview
