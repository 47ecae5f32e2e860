package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Cluster are the requests of a Controller.
type Cluster interface {
	// Tallies lists the PodTallies of a namespace, and Tally reads one. Both are live.
	Tallies(ctx context.Context, namespace string) ([]*StoredTally, error)
	Tally(ctx context.Context, namespace, name string) (*StoredTally, error)
	// Defined reports whether the CustomResourceDefinition of PodTallies exists.
	Defined(ctx context.Context) (bool, error)
	// WriteStatus replaces the status of one that has the UID and resourceVersion, and returns the
	// new resourceVersion.
	WriteStatus(ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (string, error)
	// Pods is one page of a consistent list, and Watch goes on from it.
	Pods(ctx context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error)
	Watch(ctx context.Context, namespace string, options metav1.ListOptions) (apiwatch.Interface, error)
	// Pod reads one live.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Patch sends a strategic merge patch of a Pod's metadata.
	Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error)
	// Metadata is one page of a list of all Pods in the cluster.
	Metadata(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Node reads the state of a Node.
	Node(ctx context.Context, name string) (NodeState, error)
}

// StoredTally is a PodTally as it was read.
type StoredTally struct {
	v1alpha1.PodTally
	// Editor is who wrote the counts of the status last, unless that was Curfew.
	Editor string
	// Unmet is what the PodTally needs and this version of Curfew does not have.
	Unmet field.ErrorList
	// Requires is the record for older versions of Curfew that has to be written; else nil.
	Requires *metav1.Condition
}

// NodeState is what matters of a Node.
type NodeState uint8

// States of a Node. One that is not ready may still run its Pods.
const (
	NodeReady NodeState = iota
	NodeNotReady
	NodeGone
)

// stateOf is not ready where the Node says so. The node controller says it of one that is silent.
func stateOf(node *corev1.Node) NodeState {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return NodeNotReady
		}
	}
	return NodeReady
}

// Client is a [Cluster] of clients.
type Client struct {
	// Objects reads and writes PodTallies, with their managedFields, through [watch.Cap].
	Objects dynamic.Interface
	// Watches lists, watches and reads Pods, and reads Nodes, through [watch.Cap].
	Watches kubernetes.Interface
	// Metadata patches Pods, and lists them where nothing else matters.
	Partial metadata.Interface
}

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

func (c *Client) tallies(namespace string) dynamic.ResourceInterface {
	return c.Objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(namespace)
}

// Tallies implements Cluster.
func (c *Client) Tallies(ctx context.Context, namespace string) ([]*StoredTally, error) {
	var out []*StoredTally
	_, err := watch.Each(ctx, metav1.ListOptions{}, c.tallies(namespace).List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			object, err := objectOf(&page.Items[i])
			if err != nil {
				return err
			}
			out = append(out, object)
		}
		return nil
	})
	return out, err
}

// Defined implements Cluster. It is a list, since an empty one says more than a 404.
func (c *Client) Defined(ctx context.Context) (bool, error) {
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.PodTallies+"."+v1alpha1.GroupVersion.Group)
	found, err := c.Partial.Resource(definitionResource).List(ctx, metav1.ListOptions{FieldSelector: name.String()})
	if err != nil {
		return false, err
	}
	return len(found.Items) > 0, nil
}

// Tally implements Cluster.
func (c *Client) Tally(ctx context.Context, namespace, name string) (*StoredTally, error) {
	live, err := c.tallies(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return objectOf(live)
}

func objectOf(from *unstructured.Unstructured) (*StoredTally, error) {
	out := &StoredTally{
		Editor: editorOf(from.GetManagedFields()),
		Unmet:  requirement.Unmet("PodTally", from.Object), Requires: requirement.Record("PodTally", from.Object),
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, &out.PodTally); err != nil {
		return nil, fmt.Errorf("reading PodTally %s/%s: %w", from.GetNamespace(), from.GetName(), err)
	}
	// A tenant may fill these with a megabyte, of each PodTally of a list.
	out.Labels, out.Annotations, out.OwnerReferences, out.ManagedFields = nil, nil, nil, nil
	return out, nil
}

// editorOf is who other than Curfew owns a count of a status.
func editorOf(fields []metav1.ManagedFieldsEntry) string {
	for i := range fields {
		managed := &fields[i]
		if managed.Subresource != "status" || managed.Manager == fieldManager || managed.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Status map[string]json.RawMessage `json:"f:status"`
		}
		if json.Unmarshal(managed.FieldsV1.GetRawBytes(), &owned) != nil {
			return managed.Manager
		}
		for _, count := range []string{"f:succeeded", "f:failed", "f:uncountedTerminatedPods"} {
			if _, ok := owned.Status[count]; ok {
				return managed.Manager
			}
		}
	}
	return ""
}

// WriteStatus implements Cluster.
func (c *Client) WriteStatus(
	ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus,
) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return "", fmt.Errorf("status of PodTally %s/%s: %w", namespace, name, err)
	}
	patch, err := follow.StatusPatch(uid, version, content)
	if err != nil {
		return "", fmt.Errorf("status of PodTally %s/%s: %w", namespace, name, err)
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	written, err := c.tallies(namespace).Patch(ctx, name, types.JSONPatchType, patch, options, "status")
	if err != nil {
		return "", err
	}
	return written.GetResourceVersion(), nil
}

// Pods implements Cluster.
func (c *Client) Pods(ctx context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
	return c.Watches.CoreV1().Pods(namespace).List(ctx, options)
}

// Watch implements Cluster.
func (c *Client) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (apiwatch.Interface, error) {
	return c.Watches.CoreV1().Pods(namespace).Watch(ctx, options)
}

// Pod implements Cluster.
func (c *Client) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return c.Watches.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Patch implements Cluster.
func (c *Client) Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error) {
	options := metav1.PatchOptions{FieldManager: fieldManager}
	return c.Partial.Resource(podResource).Namespace(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, options)
}

// Metadata implements Cluster.
func (c *Client) Metadata(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return c.Partial.Resource(podResource).List(ctx, options)
}

// Node implements Cluster.
func (c *Client) Node(ctx context.Context, name string) (NodeState, error) {
	node, err := c.Watches.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return NodeGone, nil
	}
	if err != nil {
		return NodeReady, err
	}
	return stateOf(node), nil
}

const (
	fieldManager = "curfew-tally"
	// workers is how many tallies have a round at once.
	workers = 16
	// recheck is how often a tally is looked at without any reason to.
	recheck = 10 * time.Minute
	// retryFirst is the wait after a first failure of a tally. It doubles up to recheck.
	retryFirst = time.Second
)
