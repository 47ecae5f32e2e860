// Package chart packs manifests/chart, Curfew's Helm chart, and writes install.yaml.
//
// The chart is plain templates, except that templates/rbac.yaml and a few more print files of
// manifests, which manifests/chart/files links to. Tests compare what the chart renders with what
// kustomize builds, with each value that has a component in manifests/components.
package chart
