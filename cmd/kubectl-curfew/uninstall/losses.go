package uninstall

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Loss is how many objects of one of Curfew's kinds there are.
type Loss struct {
	Resource, Singular, Plural string
	Count                      int
}

// String is 1 PodTally or 2 PodTallies.
func (l Loss) String() string {
	if l.Count == 1 {
		return "1 " + l.Singular
	}
	return fmt.Sprintf("%d %s", l.Count, l.Plural)
}

// own kinds, those first that people wrote.
var ownKinds = []Loss{
	{Resource: v1alpha1.LifecyclePolicies, Singular: "LifecyclePolicy", Plural: "LifecyclePolicies"},
	{Resource: v1alpha1.KindProfiles, Singular: "KindProfile", Plural: "KindProfiles"},
	{Resource: v1alpha1.CleanupPolicies, Singular: "CleanupPolicy", Plural: "CleanupPolicies"},
	{Resource: v1alpha1.ClusterCleanupPolicies, Singular: "ClusterCleanupPolicy", Plural: "ClusterCleanupPolicies"},
	{Resource: v1alpha1.PodTallies, Singular: "PodTally", Plural: "PodTallies"},
	{Resource: v1alpha1.DeletionPauses, Singular: "DeletionPause", Plural: "DeletionPauses"},
	{Resource: v1alpha1.CleanupApprovals, Singular: "CleanupApproval", Plural: "CleanupApprovals"},
	{Resource: v1alpha1.ClusterCleanupApprovals, Singular: "ClusterCleanupApproval", Plural: "ClusterCleanupApprovals"},
	{Resource: v1alpha1.CleanupReports, Singular: "CleanupReport", Plural: "CleanupReports"},
	{Resource: v1alpha1.ClusterCleanupReports, Singular: "ClusterCleanupReport", Plural: "ClusterCleanupReports"},
}

// losses counts the objects of Curfew's own kinds.
func (i *Installation) losses(ctx context.Context) error {
	for _, kind := range ownKinds {
		err := i.metadata(ctx, v1alpha1.GroupVersion.WithResource(kind.Resource), func(*metav1.ObjectMeta) { kind.Count++ })
		if err != nil {
			return err
		}
		if kind.Count > 0 {
			i.Losses = append(i.Losses, kind)
		}
	}
	return nil
}

// Release is a Pod with the finalizer of a PodTally.
type Release struct {
	Namespace, Name string
	UID             types.UID
	// countedBy is the PodTally whose status lists the Pod: it is as good as counted.
	countedBy types.UID
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// releases finds the Pods that have the finalizer of PodTallies.
func (i *Installation) releases(ctx context.Context) error {
	i.Releases = nil
	listed := map[types.UID]types.UID{}
	err := i.list(ctx, v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies), "", func(tally *unstructured.Unstructured) {
		for _, outcome := range []string{"succeeded", "failed"} {
			uids, _, _ := unstructured.NestedStringSlice(tally.Object, "status", "uncountedTerminatedPods", outcome)
			for _, uid := range uids {
				listed[types.UID(uid)] = tally.GetUID()
			}
		}
	})
	if err != nil {
		return err
	}
	return i.metadata(ctx, pods, func(pod *metav1.ObjectMeta) {
		if slices.Contains(pod.Finalizers, policy.FinalizerTally) {
			i.Releases = append(i.Releases, Release{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, countedBy: listed[pod.UID]})
		}
	})
}

// metadata passes the metadata of all objects of a kind to take. That the kind is not served is no
// error.
func (i *Installation) metadata(ctx context.Context, of schema.GroupVersionResource, take func(*metav1.ObjectMeta)) error {
	_, err := paging.Each(ctx, metav1.ListOptions{}, i.clients.Metadata.Resource(of).List, func(page *metav1.PartialObjectMetadataList) error {
		for j := range page.Items {
			take(&page.Items[j].ObjectMeta)
		}
		return nil
	})
	if err != nil && !world.Gone(err) {
		return fmt.Errorf("listing %s: %w", of.GroupResource(), err)
	}
	return nil
}
