package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// NamespaceMeta is the part of a Namespace that is read: its metadata.
func NamespaceMeta() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return meta
}

// StripNamespace is a cache transform that leaves what Curfew reads: the metadata, which the
// expressions of policies may use, without the parts that only kubectl and the API server need.
func StripNamespace(object any) (any, error) {
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	meta.ManagedFields = nil
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
	return meta, nil
}

// Namespaces follows the namespaces of a cache and reports changes. With [Namespaces.WriteStamps]
// it also keeps Curfew's own keys on a Namespace in step with the annotations that users write.
type Namespaces struct {
	reader client.Reader // live reads
	clock  clock.Clock
	log    logr.Logger
	synced toolscache.InformerSynced
	cache  cache.Cache
	stamper
	versions versions

	mu      sync.RWMutex
	known   map[string]*resolution.NamespacePolicy
	metas   map[string]*metav1.PartialObjectMetadata
	gone    map[string]goneNamespace
	floor   map[string]uint64 // resourceVersions from LISTs: see catchUp
	unshown map[string]bool   // names that a watch that began again has not shown: see settle
	swept   time.Time         // when those that are too old were last dropped
	changed []func(name string)
	others  []func(name string)
	added   []func(name string)
}

// goneNamespace is the last state of a deleted namespace. If one of its name is created again,
// feeds that are ahead of the cache have judged by that state.
type goneNamespace struct {
	at                  time.Time
	annotations, labels map[string]string
}

// goneFor is how long that is kept.
const goneFor = 10 * time.Minute

// NewNamespaces follows the namespaces of a cache. It reads a namespace that the cache lacks with
// reader.
func NewNamespaces(ctx context.Context, from cache.Cache, reader client.Reader, clock clock.Clock, log logr.Logger) (*Namespaces, error) {
	n := &Namespaces{
		reader: reader, clock: clock, log: log.WithName("namespaces"), cache: from,
		known: map[string]*resolution.NamespacePolicy{}, metas: map[string]*metav1.PartialObjectMetadata{},
	}
	var err error
	n.synced, err = n.watch(ctx)
	return n, err
}

// watch follows the namespaces of the cache.
func (n *Namespaces) watch(ctx context.Context) (toolscache.InformerSynced, error) {
	informer, err := n.cache.GetInformer(ctx, NamespaceMeta(), cache.BlockUntilSynced(false))
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
	return registration.HasSynced, nil
}

// OnChange registers a function that is called with each namespace if Curfew's labels or
// annotations on it have changed. Call it before the cache starts.
func (n *Namespaces) OnChange(f func(name string)) { n.changed = append(n.changed, f) }

// OnOthers registers a function that is called with each namespace if only annotations that are not
// Curfew's have changed. They change often, and only the expressions of policies use them. Call it
// before the cache starts.
func (n *Namespaces) OnOthers(f func(name string)) { n.others = append(n.others, f) }

// OnAdd registers a function that is called for each namespace that has annotations of Curfew and
// was not in the cache before. A feed may have read an older state of it live. Call it before the
// cache starts.
func (n *Namespaces) OnAdd(f func(name string)) { n.added = append(n.added, f) }

// Synced reports whether all namespaces are known.
func (n *Namespaces) Synced() bool { return n.synced() }

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
	read := resolution.NamespaceOf(&meta.ObjectMeta)
	uses := usesCurfew(read)
	n.mu.Lock()
	delete(n.unshown, meta.Name)
	if n.stale(meta) {
		n.mu.Unlock()
		return
	}
	was, known := n.gone[meta.Name]
	delete(n.gone, meta.Name)
	old := n.metas[meta.Name]
	if old != nil {
		was, known = goneNamespace{annotations: old.Annotations, labels: old.Labels}, true
	}
	n.metas[meta.Name] = meta
	n.known[meta.Name] = read
	n.mu.Unlock()
	n.stampLater(meta.Name)
	var tell []func(string)
	switch {
	case !known && uses:
		tell = n.added
	case !known:
	case !maps.Equal(curfewKeys(was.annotations), curfewKeys(meta.Annotations)),
		!maps.Equal(othersKeys(was.labels), othersKeys(meta.Labels)):
		tell = n.changed
	case !maps.Equal(was.annotations, meta.Annotations):
		tell = n.others
	case old == nil && uses:
		tell = n.added // It is back as it was, and may have been otherwise in between.
	}
	for _, f := range tell {
		f(meta.Name)
	}
	n.versions.set(meta.Name, meta.ResourceVersion)
}

func (n *Namespaces) forget(object any) {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	n.mu.Lock()
	stale := n.stale(meta)
	n.mu.Unlock()
	if stale {
		return
	}
	n.stampNever(meta.Name) // A standby stamps none, and hears of namespaces for as long as it stands by.
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.versions.drop(meta.Name, meta.ResourceVersion)
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

// stale reports whether a state is older than a LIST or a watch after it showed. The lock is held.
func (n *Namespaces) stale(meta *metav1.PartialObjectMetadata) bool {
	version, floor := versionOf(meta.ResourceVersion), n.floor[meta.Name]
	if floor > 0 {
		n.floor[meta.Name] = max(floor, version)
	}
	return version < floor
}

func curfewKeys(all map[string]string) map[string]string {
	keys := maps.Clone(all)
	maps.DeleteFunc(keys, func(key, _ string) bool { return !strings.HasPrefix(key, wellknown.Prefix) })
	return keys
}

// othersKeys are the labels that policies may select by; Curfew's own follow from the annotations.
func othersKeys(all map[string]string) map[string]string {
	keys := maps.Clone(all)
	maps.DeleteFunc(keys, func(key, _ string) bool { return strings.HasPrefix(key, wellknown.Prefix) })
	return keys
}

// usesCurfew reports whether a namespace carries any of Curfew's annotations.
func usesCurfew(namespace *resolution.NamespacePolicy) bool {
	return len(curfewKeys(namespace.Annotations)) > 0
}

// Namespace answers from the cache, and reads a namespace live that the cache lacks.
func (n *Namespaces) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	n.mu.RLock()
	known, ok := n.known[name]
	n.mu.RUnlock()
	if ok {
		return known, nil
	}
	return n.LiveNamespace(ctx, name)
}

// LiveNamespace asks the API server.
func (n *Namespaces) LiveNamespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	meta := NamespaceMeta()
	if err := n.reader.Get(ctx, types.NamespacedName{Name: name}, meta); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return resolution.NamespaceOf(&meta.ObjectMeta), nil
}

// UID returns the UID of a namespace, "" where it is not known.
func (n *Namespaces) UID(name string) types.UID {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if meta := n.metas[name]; meta != nil {
		return meta.UID
	}
	return ""
}

// All are all namespaces, by name.
func (n *Namespaces) All() []*resolution.NamespacePolicy {
	return n.those(func(*resolution.NamespacePolicy) bool { return true })
}

func (n *Namespaces) those(are func(*resolution.NamespacePolicy) bool) []*resolution.NamespacePolicy {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []*resolution.NamespacePolicy
	for _, read := range n.known {
		if are(read) {
			out = append(out, read)
		}
	}
	slices.SortFunc(out, func(a, b *resolution.NamespacePolicy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// InUse are the namespaces that carry annotations of Curfew.
func (n *Namespaces) InUse() []string {
	var out []string
	for _, read := range n.those(usesCurfew) {
		out = append(out, read.Name)
	}
	return out
}
