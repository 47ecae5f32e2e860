// Package manifests is where the Kustomize trees lie that install Curfew. There is no code in it,
// only the tests that keep the YAML honest: every document is decoded strictly into its API type,
// base and overlays are built as kubectl does, and the matchConditions are compiled and evaluated
// by the API server's own code over a table of requests.
//
//	base            everything: namespace, rbac, flowcontrol, webhook, deploy
//	overlays/local  Curfew as processes beside the control plane: no deploy, webhooks by URL
//	samples         to kubectl apply and watch
package manifests
