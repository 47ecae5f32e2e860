package follow

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
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
	n.stamper.client, n.stamper.serverTime, n.stamper.pending = writer, serverTime, loop.NewRetryQueue(n.clock, writeMost)
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

// settled reports whether a write needs no other attempt. After a conflict a newer state is on its
// way through the watch.
func settled(err error) bool { return err == nil || apierrors.IsConflict(err) || IsGone(err) }

// stamp writes Curfew's own keys where they are not as they have to be, because a change slipped
// past admission.
func (n *Namespaces) stamp(ctx context.Context, name string) error {
	n.mu.RLock()
	meta, said := n.metas[name], n.known[name]
	n.mu.RUnlock()
	if meta == nil || meta.DeletionTimestamp != nil {
		return nil
	}
	var now time.Time
	var unknown error // While the time is not known, the labels are kept in step.
	if said != nil && said.HasDefaults() {
		now, unknown = n.serverTime(ctx)
	}
	tallied, err := n.counts(&meta.ObjectMeta)
	if err != nil {
		unknown = err
	}
	want := policy.StampNamespace(meta.Annotations, tallied, now)
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
	if _, labelled := namespace.Labels[policy.LabelPodsInUse]; err != nil {
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
