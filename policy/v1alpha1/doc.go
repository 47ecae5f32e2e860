// Package v1alpha1 contains the types of the API group curfew.dev/v1alpha1, as the API server
// stores them.
//
// A [LifecyclePolicy] sets defaults and bounds for many namespaces. A [KindProfile] describes a
// kind to Curfew. A [CleanupPolicy] or [ClusterCleanupPolicy] deletes what matches on a schedule,
// lists it in pages ([CleanupReport]) and may wait for a [CleanupApproval]. A [PodTally] counts
// finished Pods. A [DeletionPause] is the emergency stop. All are plain data: policy/expression
// compiles them for package policy, and reports unusable parts in the condition Ready. Schemas and
// deep copies are generated from the types:
//
//	go generate ./policy/v1alpha1
//
// +kubebuilder:object:generate=true
// +groupName=curfew.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object paths=. crd:maxDescLen=1000 output:crd:artifacts:config=../../manifests/crd
//go:generate go run ../../manifests/crd/generate ../../manifests/crd
