package tally

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Cluster are the requests of a Controller.
type Cluster interface {
	// Tallies lists the PodTallies of a namespace, and Tally reads one. Both are live.
	Tallies(ctx context.Context, namespace string) ([]*Object, error)
	Tally(ctx context.Context, namespace, name string) (*Object, error)
	// Defined reports whether the CustomResourceDefinition of PodTallies exists.
	Defined(ctx context.Context) (bool, error)
	// WriteStatus replaces the status of one that has the UID and resourceVersion, and returns the
	// new resourceVersion.
	WriteStatus(ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (string, error)
	// Pods is one page of a consistent list, and Watch goes on from it.
	Pods(ctx context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error)
	Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)
	// Pod reads one live.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Patch sends a strategic merge patch of a Pod's metadata.
	Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error)
	// Metadata is one page of a list of all Pods in a namespace, or with "" in the cluster.
	Metadata(ctx context.Context, namespace string, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Node reads the state of a Node.
	Node(ctx context.Context, name string) (NodeState, error)
}

// Object is a PodTally as it was read.
type Object struct {
	v1alpha1.PodTally
	// Editor is who wrote the counts of the status last, unless that was Curfew.
	Editor string
}

// patchMeta is the metadata of a strategic merge patch. The API server refuses it for a Pod with
// another UID: one that was created again under the name is never touched.
type patchMeta struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// Annotations without a value are removed.
	Annotations map[string]*string `json:"annotations,omitempty"`
	Finalizers  []string           `json:"finalizers,omitempty"`
	Remove      []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

func patchOf(meta *patchMeta) []byte {
	out, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil // This is a bug. The API server refuses an empty patch.
	}
	return out
}

// adoption adds the finalizer to exactly the state that was judged. A Pod that was released to be
// deleted is its tally's again.
func adoption(of *pod) []byte {
	out := &patchMeta{UID: of.uid, ResourceVersion: of.resourceVersion(), Finalizers: []string{policy.FinalizerTally}}
	if of.released {
		out.Annotations = map[string]*string{policy.AnnotationCountedBy: nil}
	}
	return patchOf(out)
}

// releasing removes the finalizer from exactly the state that was judged, without counting.
func releasing(uid types.UID, version string) []byte {
	return patchOf(&patchMeta{UID: uid, ResourceVersion: version, Remove: []string{policy.FinalizerTally}})
}

// counting removes the finalizer of a Pod that a status lists, and notes by whom it is counted. Any
// state will do: the status has decided.
func counting(uid, by types.UID) []byte {
	return patchOf(&patchMeta{UID: uid, Annotations: countedBy(string(by)), Remove: []string{policy.FinalizerTally}})
}

// disowning is releasing for a Pod that Curfew is about to delete, and that is not counted then.
func disowning(uid types.UID, version string) []byte {
	return patchOf(&patchMeta{UID: uid, ResourceVersion: version, Annotations: countedBy(policy.CountedByNobody), Remove: []string{policy.FinalizerTally}})
}

func countedBy(by string) map[string]*string {
	return map[string]*string{policy.AnnotationCountedBy: &by}
}
