package tally

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/pace"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Client is a [Cluster] of clients.
type Client struct {
	// Objects reads and writes PodTallies, with their managedFields, through [paging.Cap].
	Objects dynamic.Interface
	// Watches lists, watches and reads Pods, and reads Nodes, through [paging.Cap].
	Watches kubernetes.Interface
	// Metadata patches Pods, and lists them where nothing else matters.
	Partial metadata.Interface
	// Confined: nothing of the cluster may be read but what the API server serves.
	Confined bool
}

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

func (c *Client) tallies(namespace string) dynamic.ResourceInterface {
	return c.Objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(namespace)
}

// Tallies implements Cluster.
func (c *Client) Tallies(ctx context.Context, namespace string) ([]*StoredTally, error) {
	var out []*StoredTally
	_, err := paging.Each(ctx, metav1.ListOptions{}, c.tallies(namespace).List, func(page *unstructured.UnstructuredList) error {
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
	if c.Confined {
		return c.served(ctx)
	}
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.PodTallies+"."+v1alpha1.GroupVersion.Group)
	found, err := c.Partial.Resource(definitionResource).List(ctx, metav1.ListOptions{FieldSelector: name.String()})
	if err != nil {
		return false, err
	}
	return len(found.Items) > 0, nil
}

// served reports whether the API server serves Curfew's kinds. Only a list of groups that has the
// groups of Kubernetes shows that it does not: discovery shows no groups where it is answered with
// a 404.
func (c *Client) served(ctx context.Context) (bool, error) {
	found, err := discovery.ToServerGroupsInterfaceWithContext(c.Watches.Discovery()).ServerGroupsWithContext(ctx)
	if err != nil {
		return false, err
	}
	has := func(group string) bool {
		return slices.ContainsFunc(found.Groups, func(one metav1.APIGroup) bool { return one.Name == group })
	}
	if !has(appsv1.GroupName) {
		return false, errors.New("the API server's groups are incomplete")
	}
	return has(v1alpha1.GroupVersion.Group), nil
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
	out := &StoredTally{Editor: editorOf(from.GetManagedFields())}
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
		one := &fields[i]
		if one.Subresource != "status" || one.Manager == fieldManager || one.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Status map[string]json.RawMessage `json:"f:status"`
		}
		if json.Unmarshal(one.FieldsV1.GetRawBytes(), &owned) != nil {
			return one.Manager
		}
		for _, count := range []string{"f:succeeded", "f:failed", "f:uncountedTerminatedPods"} {
			if _, ok := owned.Status[count]; ok {
				return one.Manager
			}
		}
	}
	return ""
}

// WriteStatus implements Cluster.
func (c *Client) WriteStatus(ctx context.Context, namespace, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return "", fmt.Errorf("status of PodTally %s/%s: %w", namespace, name, err)
	}
	// The API server takes everything but the status from what it has.
	out := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	out.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodTally"))
	out.SetNamespace(namespace)
	out.SetName(name)
	out.SetUID(uid)
	out.SetResourceVersion(version)
	written, err := c.tallies(namespace).UpdateStatus(ctx, out, metav1.UpdateOptions{FieldManager: fieldManager})
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
func (c *Client) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	return c.Watches.CoreV1().Pods(namespace).Watch(ctx, options)
}

// Pod implements Cluster.
func (c *Client) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return c.Watches.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Patch implements Cluster.
func (c *Client) Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error) {
	return c.Partial.Resource(podResource).Namespace(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// Metadata implements Cluster.
func (c *Client) Metadata(ctx context.Context, namespace string, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return c.Partial.Resource(podResource).Namespace(namespace).List(ctx, options)
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

// StoredTally is a PodTally as it was read.
type StoredTally struct {
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
	out := &patchMeta{UID: of.uid, ResourceVersion: of.resourceVersion(), Finalizers: []string{wellknown.FinalizerTally}}
	if of.released {
		out.Annotations = map[string]*string{wellknown.AnnotationCountedBy: nil}
	}
	return patchOf(out)
}

// releasing removes the finalizer from exactly the state that was judged, without counting.
func releasing(uid types.UID, version string) []byte {
	return patchOf(&patchMeta{UID: uid, ResourceVersion: version, Remove: []string{wellknown.FinalizerTally}})
}

// counting removes the finalizer of a Pod that a status lists, and notes by whom it is counted. Any
// state will do: the status has decided.
func counting(uid, by types.UID) []byte {
	return patchOf(&patchMeta{UID: uid, Annotations: countedBy(string(by)), Remove: []string{wellknown.FinalizerTally}})
}

// disowning is releasing for a Pod that Curfew is about to delete, and that is not counted then.
func disowning(uid types.UID, version string) []byte {
	return patchOf(&patchMeta{UID: uid, ResourceVersion: version, Annotations: countedBy(wellknown.CountedByNone), Remove: []string{wellknown.FinalizerTally}})
}

func countedBy(by string) map[string]*string {
	return map[string]*string{wellknown.AnnotationCountedBy: &by}
}

// pool sends the patches of all tallies. How many are under way follows from the latency, and each
// tally that has some gets its turn: one with many Pods does not delay one with few.
type pool struct {
	clock clock.PassiveClock
	began time.Time

	mu       sync.Mutex
	pace     *pace.Concurrency
	inFlight int
	shares   []*share
}

// maxConcurrency bounds the patches that are under way.
const maxConcurrency = 64

// share are the patches of one tally.
type share struct {
	ctx  context.Context
	left []func(context.Context) (refused bool)
	open int // begun and not answered
	done chan struct{}
}

func newPool(clock clock.PassiveClock) *pool {
	return &pool{clock: clock, began: clock.Now(), pace: pace.NewConcurrency(maxConcurrency, true)}
}

// run sends all patches, and returns when they are answered. Those that have not begun when ctx
// ends are left out. A patch reports whether the API server had too much to do.
func (p *pool) run(ctx context.Context, all []func(context.Context) (refused bool)) {
	if len(all) == 0 {
		return
	}
	s := &share{ctx: ctx, left: all, done: make(chan struct{})}
	p.mu.Lock()
	p.shares = append(p.shares, s)
	p.begin()
	p.mu.Unlock()
	<-s.done
}

// begin begins as many patches as may be under way, one of each tally in turn. The lock is held.
func (p *pool) begin() {
	for p.inFlight < p.pace.Limit() && len(p.shares) > 0 {
		s := p.shares[0]
		p.shares = p.shares[1:]
		if s.ctx.Err() != nil {
			s.left = nil
		}
		if len(s.left) == 0 {
			if s.open == 0 {
				close(s.done)
			}
			continue
		}
		next := s.left[0]
		s.left = s.left[1:]
		s.open++
		p.inFlight++
		p.shares = append(p.shares, s)
		go p.send(s, next)
	}
}

func (p *pool) send(s *share, patch func(context.Context) bool) {
	began := p.clock.Now()
	refused := patch(context.WithoutCancel(s.ctx))
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Observe(pace.Sample{At: now.Sub(p.began), Latency: now.Sub(began), InFlight: p.inFlight, Refused: refused})
	p.inFlight--
	s.open--
	if s.open == 0 && len(s.left) == 0 && !slices.Contains(p.shares, s) { // begin closes a share in the line.
		close(s.done)
	}
	p.begin()
}
