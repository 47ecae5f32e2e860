package notice

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Target is the object that a notice is about: a Namespace, or a LifecyclePolicy. The zero value is
// none.
type Target struct {
	Policy bool
	Name   string
}

// targetOf returns the object behind a source. An object's own or its runtime's TTL concerns the
// object's namespace, which is "" for cluster-scoped objects.
func targetOf(source, namespace string) Target {
	switch s := policy.ParseSource(source); s.Level {
	case policy.LevelPolicy:
		return Target{Policy: true, Name: s.Name}
	case policy.LevelNamespace:
		return Target{Name: s.Name}
	default:
		return Target{Name: namespace}
	}
}

// UIDs looks up the UID of a target; "" if it is unknown. kubectl describe finds Events by it.
type UIDs func(Target) types.UID

func (t Target) reference(uids UIDs) corev1.ObjectReference {
	reference := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: t.Name, UID: uids(t)}
	if t.Policy {
		reference.APIVersion, reference.Kind = v1alpha1.GroupVersion.String(), "LifecyclePolicy"
	}
	return reference
}
