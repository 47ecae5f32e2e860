package follow

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
)

// runtimeStamper keeps default-since on runtimes whose TTL was changed past admission.
type runtimeStamper struct {
	serverTime ServerTime
	pending    *loop.RetryQueue // nil where nothing is stamped
}

const (
	// stampAgain is how long a stamp waits that failed for the first time, and stampMost how long it
	// waits at most, as one that may not be written does from the first time on.
	stampAgain = 5 * time.Second
	stampMost  = 5 * time.Minute
)

// WriteStamps has runtimes stamped, once [Runtimes.RunStamps] runs. Call it before the follower
// starts.
func (r *Runtimes) WriteStamps(serverTime ServerTime) {
	r.stamper = runtimeStamper{serverTime, loop.NewRetryQueue(r.clock, stampMost)}
}

func (s *runtimeStamper) stampLater(resource schema.GroupVersionResource, key string) {
	if s.pending != nil && key != "" {
		s.pending.Add(stampName(resource, key))
	}
}

func (s *runtimeStamper) stampNever(resource schema.GroupVersionResource, key string) {
	if s.pending != nil {
		s.pending.Remove(stampName(resource, key))
	}
}

func stampName(resource schema.GroupVersionResource, key string) string {
	return resource.Resource + "." + resource.Version + "." + resource.Group + " " + key
}

// RunStamps writes the stamps until ctx is done. It may run once in a cluster.
func (r *Runtimes) RunStamps(ctx context.Context) error {
	r.stamper.pending.Work(ctx, func(ctx context.Context, name string) time.Duration {
		err := r.stamp(ctx, name)
		if settled(err) || ctx.Err() != nil {
			return 0
		}
		r.log.Info("could not stamp a runtime, trying again", "runtime", name, "reason", err.Error())
		if apierrors.IsForbidden(err) {
			return stampMost
		}
		return stampAgain
	})
	return nil
}

// stamp writes default-since where it is not as it has to be. Until it is, the TTL of the runtime
// deletes nothing that has finished.
func (r *Runtimes) stamp(ctx context.Context, name string) error {
	resource, object := r.pendingRuntime(name)
	if object == nil || object.GetDeletionTimestamp() != nil {
		return nil
	}
	fields := r.store.Snapshot().Profiles.For(object.GroupVersionKind()).RuntimeTTLs
	have := object.GetAnnotations()
	var now time.Time
	if policy.RuntimeHash(object.Object, fields) != "" {
		var err error
		if now, err = r.stamper.serverTime(ctx); err != nil {
			return err // With another clock, it could reach what finished before (S6).
		}
	}
	want := policy.StampRuntime(object.Object, fields, have[policy.AnnotationDefaultSince], now)
	annotations := map[string]any{}
	difference(annotations, have, policy.AnnotationDefaultSince, want)
	if len(annotations) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	if _, err := r.client.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	r.log.Info("runtime stamped: its TTL was changed past admission", "runtime", name, "annotations", annotations)
	return nil
}

// pendingRuntime is a runtime that waits for its stamp, as it was last seen; nil if it is gone.
func (r *Runtimes) pendingRuntime(name string) (schema.GroupVersionResource, *unstructured.Unstructured) {
	text, key, _ := strings.Cut(name, " ")
	resource, _ := schema.ParseResourceArg(text)
	if resource == nil {
		return schema.GroupVersionResource{}, nil
	}
	r.mu.Lock()
	of := r.followed[*resource]
	r.mu.Unlock()
	if of == nil {
		return *resource, nil
	}
	object, ok := of.mirror.Get(key)
	if !ok {
		return *resource, nil
	}
	return *resource, &unstructured.Unstructured{Object: object}
}

// stampAll looks at all runtimes of a kind again: the fields in which they have a TTL may be others
// now.
func (r *Runtimes) stampAll(resource schema.GroupVersionResource, of *followedRuntimes) {
	all, err := of.mirror.All()
	if err != nil {
		return // Each is looked at once it is known.
	}
	for key := range all {
		r.stamper.stampLater(resource, key)
	}
}
