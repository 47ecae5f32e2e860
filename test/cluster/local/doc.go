// Package local builds and runs a real Kubernetes control plane on loopback, without containers:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok in the kubelets' place.
//
// Build (build.go) compiles the binaries that this module pins into a cache that is keyed by
// content. Start (start.go) takes the lock of the cluster's directory, ends whatever an earlier
// crash left there, picks free ports, writes keys and configuration (pki.go, config.go), starts the
// components in order (component.go, process.go) and returns when each has answered (ready.go).
// State (state.go) is the file cluster.json in that directory. It tells people and tests where
// things are; which processes are ours is never read from it but asked of the system, see
// process.go. Kill, Restart and Stop act on the same state.
//
// Only the standard library is imported, so that the command in front of it compiles in seconds,
// long before the control plane does.
package local
