// Package chart makes Curfew's Helm chart from the kustomize base, so that the two cannot differ.
//
// Each object of manifests/base becomes a template. Each component of manifests/components becomes
// a condition on a value: what the component adds, changes or removes is found by comparing the
// base with and without it. What has no component, such as resources, is listed in parameters.go.
// The files in manifests/chart are written by hand: the values, their schema and the notes.
package chart
