package deadline

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

const (
	// runningPods are those that are not finished; what is being deleted is among them.
	runningPods = "status.phase!=Succeeded,status.phase!=Failed"
	// ownersMost is how many owners lie between a Pod and what runs it: Pod, Job, JobSet, TrainJob are three.
	ownersMost = 5
	// podsFresh is how long one list of a namespace's Pods serves all objects in it. A look that is that much too old is made up for
	// by the next one.
	podsFresh = time.Second
)

// pod is a Pod that runs.
type pod struct {
	name     string
	uid      types.UID
	deleting bool
}

// podIndex knows which Pods run below which object, from one list a namespace and second.
type podIndex struct {
	client metadata.Interface
	clock  clock.PassiveClock

	mu     sync.Mutex
	byName map[string]*namespacePods
}

type namespacePods struct {
	mu   sync.Mutex
	at   time.Time
	pods map[types.UID][]pod // by the UID of each object above them
}

func newPodIndex(client metadata.Interface, clock clock.PassiveClock) *podIndex {
	return &podIndex{client: client, clock: clock, byName: map[string]*namespacePods{}}
}

// below are the Pods that run below an object.
func (x *podIndex) below(ctx context.Context, namespace string, uid types.UID) ([]pod, error) {
	x.mu.Lock()
	found := x.byName[namespace]
	if found == nil {
		found = &namespacePods{}
		x.byName[namespace] = found
	}
	x.mu.Unlock()
	found.mu.Lock()
	defer found.mu.Unlock()
	if now := x.clock.Now(); !found.fresh(now) {
		pods, err := x.list(ctx, namespace)
		if err != nil {
			return nil, err
		}
		found.at, found.pods = now, pods
		x.dropStale(now)
	}
	return found.pods[uid], nil
}

// fresh tells whether a list may still be used. The mutex is held.
func (n *namespacePods) fresh(now time.Time) bool {
	return n.pods != nil && now.Sub(n.at) < podsFresh && !now.Before(n.at)
}

// dropStale lets go of the lists of other namespaces that nobody will use any more: namespaces come and go.
func (x *podIndex) dropStale(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, other := range x.byName {
		if !other.mu.TryLock() {
			continue // It is being used.
		}
		if !other.fresh(now) {
			delete(x.byName, name)
		}
		other.mu.Unlock()
	}
}

// forget drops what is known of a namespace, after Pods in it were deleted.
func (x *podIndex) forget(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byName, namespace)
}

func (x *podIndex) list(ctx context.Context, namespace string) (map[types.UID][]pod, error) {
	out := map[types.UID][]pod{}
	owners := map[types.UID][]metav1.OwnerReference{}
	options := metav1.ListOptions{FieldSelector: runningPods, Limit: 500}
	for more := true; more; more = options.Continue != "" {
		list, err := x.client.Resource(podResource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing the Pods of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			if protected(item.Annotations) {
				continue
			}
			one := pod{name: item.Name, uid: item.UID, deleting: item.DeletionTimestamp != nil}
			above, err := x.above(ctx, namespace, item.OwnerReferences, owners)
			if err != nil {
				return nil, err
			}
			for _, uid := range above {
				out[uid] = append(out[uid], one)
			}
		}
		options.Continue = list.Continue
	}
	return out, nil
}

// above follows the controllers upwards. An owner that is gone, was re-created, or may not be read ends the way: what stands above it
// is then not known to be this object's, and is left to the garbage collector (S5).
func (x *podIndex) above(ctx context.Context, namespace string, references []metav1.OwnerReference, known map[types.UID][]metav1.OwnerReference) ([]types.UID, error) {
	var out []types.UID
	for range ownersMost {
		var owner *metav1.OwnerReference
		for i := range references {
			if c := references[i].Controller; c != nil && *c {
				owner = &references[i]
			}
		}
		if owner == nil {
			break
		}
		out = append(out, owner.UID)
		next, ok := known[owner.UID]
		if !ok {
			var err error
			if next, err = x.ownersOf(ctx, namespace, owner); err != nil {
				return nil, err
			}
			known[owner.UID] = next
		}
		references = next
	}
	return out, nil
}

func (x *podIndex) ownersOf(ctx context.Context, namespace string, owner *metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, nil // Nobody's.
	}
	// The plural is guessed as the API conventions and every kind that runs Pods have it. A wrong guess is not found.
	resource, _ := meta.UnsafeGuessKindToResource(group.WithKind(owner.Kind))
	object, err := x.client.Resource(resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s, an owner of Pods: %w", owner.Kind, namespace, owner.Name, err)
	case object.UID != owner.UID:
		return nil, nil
	}
	return object.OwnerReferences, nil
}

// deletePods deletes the Pods that still run below the object. It holds once none does. The Job controller's finalizer and everybody
// else's stay: a Pod that has to be accounted for is, and goes then.
func (s *stopping) deletePods(ctx context.Context) (bool, error) {
	running, err := s.pods.below(ctx, s.request.Namespace, s.request.UID)
	if err != nil || len(running) == 0 {
		return err == nil, err
	}
	if err := s.confirm(ctx); err != nil {
		return false, err
	}
	defer s.pods.forget(s.request.Namespace)
	for _, one := range running {
		if one.deleting {
			continue
		}
		sent, err := s.withinBudget(func() error {
			return s.options.Metadata.Resource(podResource).Namespace(s.request.Namespace).
				Delete(ctx, one.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.uid}})
		})
		switch {
		case !sent:
			return false, nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case err != nil:
			return false, fmt.Errorf("deleting Pod %s/%s: %w", s.request.Namespace, one.name, err)
		default:
			s.log.Info("deleted", "kind", "Pod", "object", s.request.Namespace+"/"+one.name, "uid", one.uid,
				"trigger", string(policy.TriggerDeadline), "of", s.plan.Kind.Kind+" "+s.request.Namespace+"/"+s.request.Name)
		}
	}
	return false, nil
}
