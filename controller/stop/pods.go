package stop

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/watch"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

const (
	// runningPods selects the Pods that have not finished, including Pods that are being deleted.
	runningPods = "status.phase!=Succeeded,status.phase!=Failed"
	// maxOwners bounds the chain of owners that is followed. Pod, Job, JobSet, TrainJob has three.
	maxOwners = 5
	// podsFresh is how long one list of a namespace's Pods serves all objects in it. The next
	// attempt finds the Pods that such a list missed.
	podsFresh = time.Second
	// maxWalk is how long an interrupted list may be resumed: a continue token expires after five
	// minutes.
	maxWalk = 4 * time.Minute
	// ownersFresh is how long the owners of an object are remembered, and ownersKept for how many
	// objects.
	ownersFresh = time.Minute
	ownersKept  = 1 << 14
)

// pod is a Pod that runs.
type pod struct {
	name     string
	uid      types.UID
	owners   []metav1.OwnerReference
	deleting bool
}

// podIndex knows which Pods run below which object, from one list a namespace and second.
type podIndex struct {
	client metadata.Interface
	clock  clock.PassiveClock
	owners *lru.Cache // ownerKey → ownedBy

	mu     sync.Mutex
	byName map[string]*namespacePods
}

// ownerKey names an owner as a Pod refers to it. The author of a Pod chooses the reference: if the
// UID alone were the key, one Pod could overwrite the cached owners of another Pod's owner, in any
// namespace.
type ownerKey struct {
	namespace, apiVersion, kind, name string
	uid                               types.UID
}

// ownedBy are the owners of an object, as they were read.
type ownedBy struct {
	references []metav1.OwnerReference
	at         time.Time
}

type namespacePods struct {
	// turn holds whose turn it is to read the Pods. Unlike a mutex it lets a caller give up when its
	// time is over.
	turn chan struct{}
	at   time.Time
	// found is the last complete list, or nil. walk is a list under way: the next call resumes it.
	found, walk *podList
}

// podList holds the Pods that a list of a namespace found.
type podList struct {
	below map[types.UID][]pod // by the UID of each object above them
	// unknown are Pods with an owner that Curfew may not read, so the objects above them are
	// unknown.
	unknown []unknownPod
	began   time.Time
	next    string // the continue token
}

type unknownPod struct {
	created time.Time
	// reason names the owner.
	reason string
}

func newPodIndex(client metadata.Interface, clock clock.PassiveClock) *podIndex {
	return &podIndex{client: client, clock: clock, owners: lru.New(ownersKept), byName: map[string]*namespacePods{}}
}

// below returns the Pods that run below an object, and the reason why more may run there. With an
// error it returns the Pods that were found before it.
func (x *podIndex) below(
	ctx context.Context, namespace string, uid types.UID, created time.Time,
) (running []pod, unknown string, err error) {
	x.mu.Lock()
	pods := x.byName[namespace]
	if pods == nil {
		pods = &namespacePods{turn: make(chan struct{}, 1)}
		x.byName[namespace] = pods
	}
	x.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, "", ctx.Err()
	case pods.turn <- struct{}{}:
	}
	defer func() { <-pods.turn }()
	if now := x.clock.Now(); !pods.fresh(now) {
		if err := x.list(ctx, namespace, pods, now); err != nil {
			return pods.walk.below[uid], "", err
		}
		pods.at, pods.found, pods.walk = now, pods.walk, nil
		x.dropStale(now)
	}
	for _, unknownPod := range pods.found.unknown {
		if !unknownPod.created.Before(created) {
			unknown = unknownPod.reason
		}
	}
	return pods.found.below[uid], unknown, nil
}

// fresh reports whether a list may still be used. It is the caller's turn.
func (n *namespacePods) fresh(now time.Time) bool {
	return n.found != nil && now.Sub(n.at) < podsFresh && !now.Before(n.at)
}

// resumable reports whether a list that was broken off may go on. It is the caller's turn.
func (n *namespacePods) resumable(now time.Time) bool {
	return n.walk != nil && now.Sub(n.walk.began) < maxWalk && !now.Before(n.walk.began)
}

// dropStale drops the lists of other namespaces that are too old to be used or resumed.
func (x *podIndex) dropStale(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, other := range x.byName {
		select {
		case other.turn <- struct{}{}:
			if !other.fresh(now) && !other.resumable(now) {
				delete(x.byName, name)
			}
			<-other.turn
		default: // It is being used.
		}
	}
}

// forget drops the list of a namespace after Pods in it were deleted.
func (x *podIndex) forget(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byName, namespace)
}

// list reads the Pods of a namespace page by page. It resumes an earlier call that was interrupted:
// a namespace may hold more Pods than one attempt has time for. It is the caller's turn.
func (x *podIndex) list(ctx context.Context, namespace string, pods *namespacePods, now time.Time) error {
	if !pods.resumable(now) {
		pods.walk = &podList{below: map[types.UID][]pod{}, began: now}
	}
	walk := pods.walk
	list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		page, err := x.client.Resource(podResource).Namespace(namespace).List(ctx, options)
		if err != nil {
			if _, goesOn := watch.Resume(err); apierrors.IsResourceExpired(err) && !goesOn {
				pods.walk = &podList{below: walk.below}
			}
			return nil, fmt.Errorf("listing the Pods of namespace %s: %w", namespace, err)
		}
		return page, nil
	}
	from := metav1.ListOptions{FieldSelector: runningPods, Continue: walk.next}
	_, err := watch.Each(ctx, from, list, func(page *metav1.PartialObjectMetadataList) error { return x.read(ctx, namespace, walk, page) })
	return err
}

// read adds a page to a list.
func (x *podIndex) read(ctx context.Context, namespace string, walk *podList, list *metav1.PartialObjectMetadataList) error {
	page, unknown := map[types.UID][]pod{}, []unknownPod(nil)
	for i := range list.Items {
		item := &list.Items[i]
		if protected(item.Annotations) {
			continue
		}
		above, reason, err := x.above(ctx, namespace, item.OwnerReferences)
		if err != nil {
			return err // The owners of this page that were read are remembered.
		}
		if reason != "" {
			unknown = append(unknown, unknownPod{item.CreationTimestamp.Time, reason})
		}
		for _, uid := range above {
			page[uid] = append(page[uid], pod{name: item.Name, uid: item.UID, owners: item.OwnerReferences, deleting: item.DeletionTimestamp != nil})
		}
	}
	for uid, pods := range page {
		walk.below[uid] = append(walk.below[uid], pods...)
	}
	walk.unknown, walk.next = append(walk.unknown, unknown...), list.Continue
	return nil
}

// above follows the controllers upwards and returns their UIDs. It stops at an owner that is gone
// or was re-created: nothing proves that the owners above it own this object, so its Pods are left
// to the garbage collector (S5). It also stops at an owner that Curfew may not read, and returns
// the reason as unknown.
func (x *podIndex) above(
	ctx context.Context, namespace string, references []metav1.OwnerReference,
) (uids []types.UID, unknown string, err error) {
	for range maxOwners {
		owner := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: references})
		if owner == nil {
			break
		}
		uids = append(uids, owner.UID)
		references, err = x.ownersOf(ctx, namespace, owner)
		switch {
		case apierrors.IsForbidden(err):
			return uids, fmt.Sprintf("%s %s/%s may not be read", owner.Kind, namespace, owner.Name), nil
		case err != nil && deletion.Answered(err) && !comeAgain(err):
			// A refusal about one owner keeps its Pods. It keeps no Pods of other owners running.
			return uids, fmt.Sprintf("%s %s/%s cannot be read", owner.Kind, namespace, owner.Name), nil
		case err != nil:
			return nil, "", err
		}
	}
	return uids, "", nil
}

// ownersOf returns the owners of an owner. It reads them at most once within ownersFresh.
func (x *podIndex) ownersOf(ctx context.Context, namespace string, owner *metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	now, key := x.clock.Now(), ownerKey{namespace, owner.APIVersion, owner.Kind, owner.Name, owner.UID}
	if known, ok := x.owners.Get(key); ok {
		if known := known.(ownedBy); now.Sub(known.at) < ownersFresh && !now.Before(known.at) {
			return known.references, nil
		}
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, nil // No such owner can exist.
	}
	// Guess the plural by the API conventions, which the kinds that Curfew stops follow. The API
	// server answers a wrong guess with 404.
	resource, _ := meta.UnsafeGuessKindToResource(group.WithKind(owner.Kind))
	// The author of a Pod chooses the reference, and the client does not check it. Without this
	// check Curfew would send requests to arbitrary paths, and an unexpected answer would hide all
	// Pods of the namespace.
	for _, segment := range []string{resource.Group, resource.Version, resource.Resource, owner.Name} {
		if len(content.IsPathSegmentName(segment)) > 0 {
			return nil, nil // No such owner can exist.
		}
	}
	object, err := x.client.Resource(resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	var references []metav1.OwnerReference
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s, an owner of Pods: %w", owner.Kind, namespace, owner.Name, err)
	case object.UID == owner.UID:
		references = object.OwnerReferences
	}
	x.owners.Add(key, ownedBy{references, now})
	return references, nil
}

// comeAgain reports whether the API server is overloaded, so that reading the next owner would
// fail, too.
func comeAgain(err error) bool {
	_, asked := apierrors.SuggestsClientDelay(err)
	return asked || apierrors.IsTooManyRequests(err)
}
