package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy"
)

// NamespaceMeta is what is read of a Namespace: its metadata.
func NamespaceMeta() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return meta
}

// StripNamespace is a cache transform that leaves what Curfew reads: keys of its own, and labels, which policies select by.
func StripNamespace(object any) (any, error) {
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	meta.ManagedFields = nil
	maps.DeleteFunc(meta.Annotations, func(key, _ string) bool { return !strings.HasPrefix(key, policy.Prefix) })
	return meta, nil
}

// Namespaces knows what each namespace says. It follows the cache, keeps Curfew's own keys on namespaces in step with what
// their authors wrote, and tells the feeds when a namespace has changed its mind.
type Namespaces struct {
	client client.Client // writes
	reader client.Reader // live reads
	clock  clock.Clock
	log    logr.Logger
	stamps *pending
	synced toolscache.InformerSynced

	mu       sync.RWMutex
	policies map[string]*policy.NamespacePolicy // nil for the many that say nothing
	metas    map[string]*metav1.PartialObjectMetadata
	changed  []func(name string)
}

// NewNamespaces follows the namespaces of a cache.
func NewNamespaces(ctx context.Context, from cache.Cache, writer client.Client, reader client.Reader, clock clock.Clock, log logr.Logger) (*Namespaces, error) {
	n := &Namespaces{
		client: writer, reader: reader, clock: clock, log: log.WithName("namespaces"), stamps: newPending(),
		policies: map[string]*policy.NamespacePolicy{}, metas: map[string]*metav1.PartialObjectMetadata{},
	}
	informer, err := from.GetInformer(ctx, NamespaceMeta(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.observe(object) },
		UpdateFunc: func(_, object any) { n.observe(object) },
		DeleteFunc: func(object any) { n.forget(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	n.synced = registration.HasSynced
	return n, nil
}

// OnChange registers a function that is told of each namespace whose annotations of Curfew's have changed. Call it before
// the cache starts.
func (n *Namespaces) OnChange(f func(name string)) { n.changed = append(n.changed, f) }

// WaitForSync waits until all namespaces are known.
func (n *Namespaces) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), n.synced) {
		return fmt.Errorf("waiting for namespaces: %w", ctx.Err())
	}
	return nil
}

func (n *Namespaces) observe(object any) {
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	n.mu.Lock()
	old, known := n.metas[meta.Name]
	n.metas[meta.Name] = meta
	n.policies[meta.Name] = parse(meta)
	n.mu.Unlock()
	n.stamps.add(meta.Name)
	if known && !maps.Equal(curfewKeys(old.Annotations), curfewKeys(meta.Annotations)) {
		for _, f := range n.changed {
			f(meta.Name)
		}
	}
}

func (n *Namespaces) forget(object any) {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	if meta, ok := object.(*metav1.PartialObjectMetadata); ok {
		n.mu.Lock()
		delete(n.metas, meta.Name)
		delete(n.policies, meta.Name)
		n.mu.Unlock()
	}
}

func curfewKeys(all map[string]string) map[string]string {
	keys := map[string]string{}
	for key, value := range all {
		if strings.HasPrefix(key, policy.Prefix) {
			keys[key] = value
		}
	}
	return keys
}

func parse(meta *metav1.PartialObjectMetadata) *policy.NamespacePolicy {
	if len(curfewKeys(meta.Annotations)) == 0 {
		return nil
	}
	return policy.ParseNamespace(meta.Name, meta.Annotations, meta.Labels)
}

// Get answers from the cache, and reads live what the cache does not have yet. A namespace that says nothing is nil.
func (n *Namespaces) Get(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	if name == "" {
		return nil, nil
	}
	n.mu.RLock()
	known, ok := n.policies[name]
	n.mu.RUnlock()
	if ok {
		return known, nil
	}
	read, err := n.Read(ctx, name)
	if apierrors.IsNotFound(err) {
		// It is gone, and what lies in it goes with it.
		return nil, nil
	}
	return read, err
}

// Read reads the namespace live.
func (n *Namespaces) Read(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	if name == "" {
		return nil, nil
	}
	meta := NamespaceMeta()
	if err := n.reader.Get(ctx, types.NamespacedName{Name: name}, meta); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return parse(meta), nil
}

// Run keeps the stamps until ctx is done; for the leader alone.
func (n *Namespaces) Run(ctx context.Context) error {
	delay := newDelay()
	for {
		name, ok := n.stamps.next(ctx)
		if !ok {
			return nil
		}
		err := n.stamp(ctx, name)
		switch {
		case err == nil:
			delay = newDelay()
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			// A newer state is on its way through the watch.
		case ctx.Err() == nil:
			n.log.Info("could not stamp a namespace, trying again", "namespace", name, "reason", err.Error())
			n.stamps.add(name)
			timer := n.clock.NewTimer(delay.Step())
			select {
			case <-ctx.Done():
			case <-timer.C():
			}
			timer.Stop()
		}
	}
}

// stamp writes Curfew's own keys where they are not as they have to be, because a change slipped past admission.
func (n *Namespaces) stamp(ctx context.Context, name string) error {
	n.mu.RLock()
	meta := n.metas[name]
	n.mu.RUnlock()
	if meta == nil || meta.DeletionTimestamp != nil {
		return nil
	}
	want := policy.StampNamespace(meta.Annotations, n.clock.Now())
	labels, annotations := map[string]any{}, map[string]any{}
	difference(labels, meta.Labels, policy.LabelInUse, want.InUse)
	difference(labels, meta.Labels, policy.LabelPodsInUse, want.PodsInUse)
	difference(annotations, meta.Annotations, policy.AnnotationDefaultSince, want.Since)
	if len(labels)+len(annotations) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": meta.ResourceVersion, "labels": labels, "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	target := NamespaceMeta()
	target.Name = name
	if err := n.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	n.log.Info("namespace stamped: its annotations were changed past admission", "namespace", name, "labels", labels, "annotations", annotations)
	return nil
}

// difference notes a key that is not as wanted; "" wants it gone, which a merge patch says with null.
func difference(into map[string]any, have map[string]string, key, want string) {
	value, ok := have[key]
	switch {
	case want == "" && ok:
		into[key] = nil
	case want != "" && value != want:
		into[key] = want
	}
}
