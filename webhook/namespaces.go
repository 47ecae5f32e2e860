package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy"
)

// liveReadTimeout leaves time for an answer within the five seconds that the API server waits.
const liveReadTimeout = 2 * time.Second

// Namespaces reads namespaces from a cache of their metadata, and from the API server where that does not know them. What it has
// read is parsed once a version of the namespace.
type Namespaces struct {
	cache, live client.Reader

	mu     sync.RWMutex
	parsed map[string]parsedNamespace
}

type parsedNamespace struct {
	uid     types.UID
	version string
	policy  *policy.NamespacePolicy
}

// maxParsed bounds the memory that namespaces of the past may take; beyond it all are parsed anew.
const maxParsed = 8192

// NewNamespaces returns a getter over a cache, which holds [NamespaceMetadata] objects, and over a reader that asks the API
// server.
func NewNamespaces(cache, live client.Reader) *Namespaces {
	return &Namespaces{cache: cache, live: live, parsed: map[string]parsedNamespace{}}
}

// NamespaceMetadata is an empty Namespace of which only metadata is read; caches and informers are keyed by it.
func NamespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(namespaceKind)
	return object
}

// Namespace implements [NamespaceGetter]: the cache first, the API server where the cache does not know the namespace.
func (n *Namespaces) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	object := NamespaceMetadata()
	err := n.cache.Get(ctx, client.ObjectKey{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return n.LiveNamespace(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("from the cache: %w", err)
	}
	return n.parse(name, object), nil
}

// parse reads a version of a namespace, or remembers that it did. Nobody changes what it returns.
func (n *Namespaces) parse(name string, object *metav1.PartialObjectMetadata) *policy.NamespacePolicy {
	n.mu.RLock()
	known, ok := n.parsed[name]
	n.mu.RUnlock()
	if ok && known.uid == object.UID && known.version == object.ResourceVersion && object.ResourceVersion != "" {
		return known.policy
	}
	read := namespaceOf(name, object)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.parsed) >= maxParsed {
		clear(n.parsed)
	}
	n.parsed[name] = parsedNamespace{object.UID, object.ResourceVersion, read}
	return read
}

// LiveNamespace implements [NamespaceGetter].
func (n *Namespaces) LiveNamespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	object := NamespaceMetadata()
	if err := n.live.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, fmt.Errorf("from the API server: %w", err)
	}
	return namespaceOf(name, object), nil
}

func namespaceOf(name string, object *metav1.PartialObjectMetadata) *policy.NamespacePolicy {
	out := policy.NamespaceOf(&object.ObjectMeta)
	out.Name = name
	return out
}

// Bounded implements [NamespaceLister] from the cache.
func (n *Namespaces) Bounded(ctx context.Context) ([]*policy.NamespacePolicy, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(namespaceKind.GroupVersion().WithKind("NamespaceList"))
	if err := n.cache.List(ctx, list); err != nil {
		return nil, fmt.Errorf("from the cache: %w", err)
	}
	var out []*policy.NamespacePolicy
	for i := range list.Items {
		item := &list.Items[i]
		if read := policy.ParseNamespace(item.Name, item.Annotations, item.Labels); read.Bounds != (policy.Bounds{}) {
			out = append(out, read)
		}
	}
	slices.SortFunc(out, func(a, b *policy.NamespacePolicy) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
