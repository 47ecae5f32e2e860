package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// stamper keeps Curfew's own keys on namespaces whose annotations were changed past admission, and
// the label that has admission see the Pods of namespaces with a PodTally.
type stamper struct {
	client client.Client
	// tallied reports whether a PodTally of a namespace counts Pods; nil means that none does.
	tallied func(namespace string) (bool, error)
	// serverTime is the API server's, by which namespaces are stamped.
	serverTime func(context.Context) (time.Time, error)
	pending    *loop.RetryQueue // nil where nothing is stamped
}

// WriteStamps has namespaces stamped, once [Namespaces.Run] runs. Call it before the cache starts.
func (n *Namespaces) WriteStamps(writer client.Client, serverTime func(context.Context) (time.Time, error)) {
	n.stamper.client, n.stamper.serverTime, n.stamper.pending = writer, serverTime, loop.NewRetryQueue(n.clock, maxWrite)
}

// StampTallied has namespaces with a PodTally labelled. Call it before the cache and the platform
// start.
func (n *Namespaces) StampTallied(tallies *Tallies) {
	n.tallied = tallies.Counts
	tallies.OnChange(n.stampLater)
}

func (s *stamper) stampLater(name string) {
	if s.pending != nil {
		s.pending.Add(name)
	}
}

func (s *stamper) stampNever(name string) {
	if s.pending != nil {
		s.pending.Remove(name)
	}
}

// Run writes the stamps until ctx is done. It may run once in a cluster.
func (n *Namespaces) Run(ctx context.Context) error {
	n.pending.Work(ctx, func(ctx context.Context, name string) time.Duration {
		err := n.stamp(ctx, name)
		if settled(err) || ctx.Err() != nil {
			return 0
		}
		n.log.Info("could not stamp a namespace, trying again", "namespace", name, "reason", err.Error())
		return writeAgain
	})
	return nil
}

// errUndone: what was stamped is not on the object that the API server returned.
var errUndone = errors.New("another admission webhook undid the stamp")

// settled reports whether a write needs no other attempt. After a conflict a newer state is on its
// way through the watch.
func settled(err error) bool { return err == nil || apierrors.IsConflict(err) || IsGone(err) }

// stamp writes Curfew's own keys where they are not as they have to be, because a change slipped
// past admission.
func (n *Namespaces) stamp(ctx context.Context, name string) error {
	n.mu.RLock()
	meta, policy := n.metas[name], n.known[name]
	n.mu.RUnlock()
	if meta == nil || meta.DeletionTimestamp != nil {
		return nil
	}
	var now time.Time
	var unknown error // While the time is not known, the labels are kept in step.
	if policy != nil && policy.HasDefaults() {
		now, unknown = n.serverTime(ctx)
	}
	tallied, err := n.counts(&meta.ObjectMeta)
	if err != nil {
		unknown = err
	}
	want := resolution.StampNamespace(meta.Annotations, tallied, now)
	missing := func(meta *metav1.PartialObjectMetadata) (labels, annotations map[string]any) {
		labels, annotations = map[string]any{}, map[string]any{}
		difference(labels, meta.Labels, wellknown.LabelInUse, want.InUse)
		difference(labels, meta.Labels, wellknown.LabelPodsInUse, want.PodsInUse)
		difference(annotations, meta.Annotations, wellknown.AnnotationDefaultSince, want.Since)
		return labels, annotations
	}
	labels, annotations := missing(meta)
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
	// A write that another webhook undoes changes nothing, so that no watch reports it.
	if labels, annotations := missing(target); len(labels)+len(annotations) > 0 {
		return fmt.Errorf("%w: labels %v, annotations %v", errUndone, labels, annotations)
	}
	n.log.Info("namespace stamped", "namespace", name, "labels", labels, "annotations", annotations)
	return unknown
}

// counts reports whether a PodTally of a namespace counts Pods. Until all PodTallies are known, the
// label stays as it is.
func (s *stamper) counts(namespace *metav1.ObjectMeta) (bool, error) {
	if s.tallied == nil {
		return false, nil
	}
	tallied, err := s.tallied(namespace.Name)
	if _, labelled := namespace.Labels[wellknown.LabelPodsInUse]; err != nil {
		if !labelled { // A PodTally that is found has the namespace stamped again.
			err = nil
		}
		return labelled, err
	}
	return tallied, nil
}

// difference notes a key that is not as wanted; "" wants it gone, which a merge patch says with
// null.
func difference(into map[string]any, have map[string]string, key, want string) {
	value, ok := have[key]
	switch {
	case want == "" && ok:
		into[key] = nil
	case want != "" && value != want:
		into[key] = want
	}
}

// runtimeStamper keeps default-since on runtimes whose TTL was changed past admission.
type runtimeStamper struct {
	serverTime ServerTime
	pending    *loop.RetryQueue // nil where nothing is stamped
}

const (
	// stampAgain is how long a stamp waits that failed for the first time, and maxStamp how long it
	// waits at most, as one that may not be written does from the first time on.
	stampAgain = 5 * time.Second
	maxStamp   = 5 * time.Minute
)

// WriteStamps has runtimes stamped, once [Runtimes.RunStamps] runs. Call it before the follower
// starts.
func (r *Runtimes) WriteStamps(serverTime ServerTime) {
	r.stamper = runtimeStamper{serverTime, loop.NewRetryQueue(r.clock, maxStamp)}
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
			return maxStamp
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
	if resolution.RuntimeHash(object.Object, fields) != "" {
		var err error
		if now, err = r.stamper.serverTime(ctx); err != nil {
			return err // With another clock, it could reach what finished before (S6).
		}
	}
	want := resolution.StampRuntime(object.Object, fields, have[wellknown.AnnotationDefaultSince], now)
	annotations := map[string]any{}
	difference(annotations, have, wellknown.AnnotationDefaultSince, want)
	if len(annotations) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	client := r.client.Resource(resource).Namespace(object.GetNamespace())
	patched, err := client.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if got := patched.GetAnnotations()[wellknown.AnnotationDefaultSince]; got != want {
		return fmt.Errorf("%w: annotation %s is %q", errUndone, wellknown.AnnotationDefaultSince, got)
	}
	r.log.Info("runtime stamped: its TTL was changed past admission", "runtime", name, "annotations", annotations)
	return nil
}

// pendingRuntime is a runtime that waits for its stamp, as it was last seen; nil if it is gone, or if
// its fields with a TTL are yet to be read.
func (r *Runtimes) pendingRuntime(name string) (schema.GroupVersionResource, *unstructured.Unstructured) {
	text, key, _ := strings.Cut(name, " ")
	resource, _ := schema.ParseResourceArg(text)
	if resource == nil {
		return schema.GroupVersionResource{}, nil
	}
	r.mu.Lock()
	runtimes := r.followed[*resource]
	r.mu.Unlock()
	if runtimes == nil {
		return *resource, nil
	}
	content, ok := runtimes.mirror.Get(key)
	object := &unstructured.Unstructured{Object: content}
	if !ok || !runtimes.fields.covers(r.store.Snapshot().Profiles.For(object.GroupVersionKind()).RuntimeTTLs) {
		return *resource, nil
	}
	return *resource, object
}

// stampAll looks at all runtimes of a kind again: the fields in which they have a TTL may be others
// now.
func (r *Runtimes) stampAll(resource schema.GroupVersionResource, runtimes *followedRuntimes) {
	all, err := runtimes.mirror.All()
	if err != nil {
		return // Each is looked at once it is known.
	}
	for key := range all {
		r.stamper.stampLater(resource, key)
	}
}
