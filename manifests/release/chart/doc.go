// Package chart makes Curfew's Helm chart from the kustomize base, so that the two cannot differ.
//
// Each object of manifests/base becomes a template. Each component of manifests/components becomes
// a condition on a value: a comparison of the base with and without it shows what the component
// adds, changes or removes. printer.go lists the values without a component, such as resources.
// The files in manifests/chart are written by hand: the values, their schema and the notes.
package chart
