// Package harness runs Curfew against a real control plane, for the end-to-end tests, the demo and
// `make up`.
//
// [StartCluster] brings a control plane up in a folder of its own (test/cluster does the work).
// [Cluster.Install] applies manifests/overlays/local with the port of a webhook that is yet to
// come, and [Cluster.StartWebhook] and [Cluster.StartController] start bin/curfew as processes of
// their own, each with a token of its ServiceAccount, so that RBAC is tested with everything else.
// [Cluster.WaitForWebhook] returns when the API server really asks Curfew.
//
// A [Proxy] can stand between a process and the API server. It passes everything on, watches
// included, keeps a record of every DELETE, and lets a test step in at the very moment a request
// arrives: to change the world under it, to refuse it, to delay it. An [Observer] keeps what the
// API server's watches tell of a namespace, with the time at which they told it, so that a test
// waits for events and never sleeps, and can still ask afterwards what happened when.
//
// [Cluster.Kubectl] runs the kubectl binary that belongs to the control plane; what it prints is
// what people read.
package harness
