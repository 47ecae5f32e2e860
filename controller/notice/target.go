package notice

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Target is what is told of: a Namespace, or a LifecyclePolicy. The zero value is nobody.
type Target struct {
	Policy bool
	Name   string
}

// targetOf is whom a source stands for. What an object or its runtime asked for concerns the namespace that the object lies in, "" for
// cluster-scoped objects, which have nobody.
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

// UIDs looks objects up by name; "" where one is not known. With the UID, kubectl describe finds the Events.
type UIDs func(Target) types.UID

func (t Target) reference(uids UIDs) corev1.ObjectReference {
	reference := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: t.Name, UID: uids(t)}
	if t.Policy {
		reference.APIVersion, reference.Kind = v1alpha1.GroupVersion.String(), "LifecyclePolicy"
	}
	return reference
}
