package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
)

// NamespaceMeta is what is read of a Namespace: its metadata.
func NamespaceMeta() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return meta
}

// StripNamespace is a cache transform that leaves what Curfew reads: the metadata, which the expressions of policies may look
// at, without what is only there for kubectl and the API server.
func StripNamespace(object any) (any, error) {
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	meta.ManagedFields = nil
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
	return meta, nil
}

// Namespaces knows what each namespace says. It follows the cache, keeps Curfew's own keys on namespaces in step with what
// their authors wrote, and tells the feeds when a namespace has changed its mind.
type Namespaces struct {
	client client.Client // writes
	reader client.Reader // live reads
	clock  clock.Clock
	// serverTime is the API server's, by which namespaces are stamped.
	serverTime func(context.Context) (time.Time, error)
	log        logr.Logger
	stamps     *loop.Queue
	synced     toolscache.InformerSynced

	mu      sync.RWMutex
	known   map[string]Namespace
	metas   map[string]*metav1.PartialObjectMetadata
	gone    map[string]goneNamespace
	swept   time.Time // when those that are too old were last dropped
	changed []func(name string)
	others  []func(name string)
	added   []func(name string)
}

// goneNamespace is what a namespace said at last. Where one of its name is created again, feeds that are ahead of the cache have judged by it.
type goneNamespace struct {
	at                  time.Time
	annotations, labels map[string]string
}

// goneFor is how long that is kept.
const goneFor = 10 * time.Minute

// NewNamespaces follows the namespaces of a cache.
func NewNamespaces(ctx context.Context, from cache.Cache, writer client.Client, reader client.Reader, clock clock.Clock,
	serverTime func(context.Context) (time.Time, error), log logr.Logger,
) (*Namespaces, error) {
	n := &Namespaces{
		client: writer, reader: reader, clock: clock, serverTime: serverTime, log: log.WithName("namespaces"), stamps: loop.NewQueue(),
		known: map[string]Namespace{}, metas: map[string]*metav1.PartialObjectMetadata{},
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

// OnChange registers a function that is told of each namespace whose labels or annotations of Curfew's have changed. Call it before
// the cache starts.
func (n *Namespaces) OnChange(f func(name string)) { n.changed = append(n.changed, f) }

// OnOthers registers a function that is told of each namespace of which nothing but others' annotations have changed. They come and go
// often, and nobody but the expressions of policies looks at them. Call it before the cache starts.
func (n *Namespaces) OnOthers(f func(name string)) { n.others = append(n.others, f) }

// OnAdd registers a function that is called for each namespace that has annotations of Curfew and was not
// in the cache before. A feed may have read an older state of it live. Call it before the cache starts.
func (n *Namespaces) OnAdd(f func(name string)) { n.added = append(n.added, f) }

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
	read := parse(meta)
	n.mu.Lock()
	was, known := n.gone[meta.Name]
	delete(n.gone, meta.Name)
	old := n.metas[meta.Name]
	if old != nil {
		was, known = goneNamespace{annotations: old.Annotations, labels: old.Labels}, true
	}
	n.metas[meta.Name] = meta
	n.known[meta.Name] = read
	n.mu.Unlock()
	n.stamps.Add(meta.Name)
	var tell []func(string)
	switch {
	case !known && read.Policy != nil:
		tell = n.added
	case !known:
	case !maps.Equal(curfewKeys(was.annotations), curfewKeys(meta.Annotations)) || !maps.Equal(othersKeys(was.labels), othersKeys(meta.Labels)):
		tell = n.changed
	case !maps.Equal(was.annotations, meta.Annotations):
		tell = n.others
	case old == nil && read.Policy != nil:
		tell = n.added // It is back as it was, and may have been otherwise in between.
	}
	for _, f := range tell {
		f(meta.Name)
	}
}

func (n *Namespaces) forget(object any) {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	n.stamps.Remove(meta.Name) // A standby stamps none, and hears of namespaces for as long as it stands by.
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.metas, meta.Name)
	delete(n.known, meta.Name)
	if now.Sub(n.swept) >= goneFor { // Namespaces come and go by the thousand.
		maps.DeleteFunc(n.gone, func(_ string, was goneNamespace) bool { return now.Sub(was.at) >= goneFor })
		n.swept = now
	}
	if n.gone == nil {
		n.gone = map[string]goneNamespace{}
	}
	n.gone[meta.Name] = goneNamespace{now, meta.Annotations, meta.Labels}
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

// othersKeys are the labels that policies may select by; Curfew's own follow from the annotations.
func othersKeys(all map[string]string) map[string]string {
	keys := maps.Clone(all)
	maps.DeleteFunc(keys, func(key, _ string) bool { return strings.HasPrefix(key, policy.Prefix) })
	return keys
}

func parse(meta *metav1.PartialObjectMetadata) Namespace {
	read := Namespace{Object: namespaceObject(meta)}
	if len(curfewKeys(meta.Annotations)) > 0 {
		read.Policy = policy.ParseNamespace(meta.Name, meta.Annotations, meta.Labels)
	}
	return read
}

// namespaceObject is the metadata of a namespace as expressions see it: the fields that the API server's own policies show.
func namespaceObject(meta *metav1.PartialObjectMetadata) map[string]any {
	fields := map[string]any{"name": meta.Name, "uid": string(meta.UID), "resourceVersion": meta.ResourceVersion,
		"creationTimestamp": meta.CreationTimestamp.UTC().Format(time.RFC3339)}
	for name, of := range map[string]map[string]string{"labels": meta.Labels, "annotations": meta.Annotations} {
		if len(of) == 0 {
			continue
		}
		values := make(map[string]any, len(of))
		for key, value := range of {
			values[key] = value
		}
		fields[name] = values
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": fields}
}

// Get answers from the cache, and reads live what the cache does not have yet.
func (n *Namespaces) Get(ctx context.Context, name string) (Namespace, error) {
	if name == "" {
		return Namespace{}, nil
	}
	n.mu.RLock()
	known, ok := n.known[name]
	n.mu.RUnlock()
	if ok {
		return known, nil
	}
	read, err := n.Read(ctx, name)
	if apierrors.IsNotFound(err) {
		// It is gone, and what lies in it goes with it.
		return Namespace{}, nil
	}
	return read, err
}

// Read reads the namespace live.
func (n *Namespaces) Read(ctx context.Context, name string) (Namespace, error) {
	if name == "" {
		return Namespace{}, nil
	}
	meta := NamespaceMeta()
	if err := n.reader.Get(ctx, types.NamespacedName{Name: name}, meta); err != nil {
		return Namespace{}, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return parse(meta), nil
}

// UID is that of a namespace, "" where it is not known.
func (n *Namespaces) UID(name string) types.UID {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if meta := n.metas[name]; meta != nil {
		return meta.UID
	}
	return ""
}

// InUse are the namespaces that say something of Curfew's.
func (n *Namespaces) InUse() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []string
	for name, read := range n.known {
		if read.Policy != nil {
			out = append(out, name)
		}
	}
	return out
}

// Run keeps the stamps until ctx is done; for the leader alone.
func (n *Namespaces) Run(ctx context.Context) error {
	delay := loop.NewBackoff()
	for {
		name, ok := n.stamps.Next(ctx)
		if !ok {
			return nil
		}
		err := n.stamp(ctx, name)
		switch {
		case err == nil:
			delay.Reset()
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			// A newer state is on its way through the watch.
		case ctx.Err() == nil:
			n.log.Info("could not stamp a namespace, trying again", "namespace", name, "reason", err.Error())
			n.stamps.Add(name)
			loop.Pause(ctx, n.clock, delay.Next())
		}
	}
}

// stamp writes Curfew's own keys where they are not as they have to be, because a change slipped past admission.
func (n *Namespaces) stamp(ctx context.Context, name string) error {
	n.mu.RLock()
	meta, said := n.metas[name], n.known[name].Policy
	n.mu.RUnlock()
	if meta == nil || meta.DeletionTimestamp != nil {
		return nil
	}
	var now time.Time
	var unknown error // While the time is not known, the labels are kept in step.
	if said != nil && said.HasDefaults() {
		now, unknown = n.serverTime(ctx)
	}
	want := policy.StampNamespace(meta.Annotations, now)
	labels, annotations := map[string]any{}, map[string]any{}
	difference(labels, meta.Labels, policy.LabelInUse, want.InUse)
	difference(labels, meta.Labels, policy.LabelPodsInUse, want.PodsInUse)
	difference(annotations, meta.Annotations, policy.AnnotationDefaultSince, want.Since)
	if len(labels)+len(annotations) == 0 {
		return unknown
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
	return unknown
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
