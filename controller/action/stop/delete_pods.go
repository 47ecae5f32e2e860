package stop

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/action"
)

// deletePods deletes the Pods that still run below the object. It holds when no Pod runs there. The
// finalizer of the Job controller stays: a Pod that its Job has not accounted for is deleted after
// its Job has. If an owner may not be read, it is not known whether more Pods run, and Curfew looks
// for them again.
func (s *stopping) deletePods(ctx context.Context) (bool, error) {
	running, unknown, err := s.pods.below(ctx, s.due.Namespace, s.due.UID, s.seen.created)
	if unknown != "" {
		s.doubt(unknown)
	}
	if len(running) == 0 {
		return err == nil && unknown == "", err
	}
	if err == nil {
		defer s.pods.forget(s.due.Namespace)
	}
	for _, one := range running {
		if one.deleting {
			continue
		}
		meta := &metav1.ObjectMeta{Namespace: s.due.Namespace, Name: one.name, UID: one.uid, OwnerReferences: one.owners}
		pending, err := s.delete(ctx, below{podType, meta, s.readPod(one.name)})
		if err != nil || pending {
			return false, err
		}
	}
	return false, err
}

// podType is what DELETEs of Pods need.
var podType = action.Type{Resource: podResource, Kind: "Pod", Namespaced: true, Protobuf: true}

// doubt logs, once for each state, that Pods of the object may run on unnoticed.
func (s *stopping) doubt(reason string) {
	if s.firstTime("unknown") {
		s.log.Info("Pods may run on: an owner of theirs may not be read, so that it is not known whose they are", "kind", s.plan.Kind.Kind,
			"object", s.due.ObjectName(), "uid", s.due.UID, "reason", reason)
	}
}
