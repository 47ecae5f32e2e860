package notice

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Target is the object that a notice is about: a Namespace, or a LifecyclePolicy. The zero value is
// none.
type Target struct {
	Policy bool
	Name   string
	// Inside means that the notice is stored in the Namespace that it is about, where users who may
	// see its objects may see it.
	Inside bool
}

// targetOf returns the object behind a source. An object's own or its runtime's TTL concerns the
// object's namespace, which is "" for cluster-scoped objects.
func targetOf(source, namespace string) Target {
	switch s := lifetime.ParseSource(source); s.Level {
	case lifetime.LevelPolicy:
		return Target{Policy: true, Name: s.Name}
	case lifetime.LevelNamespace:
		return Target{Name: s.Name}
	default:
		return Target{Name: namespace}
	}
}

// digestOf returns the target of a digest. Deletions by an object's own setting are reported inside
// its namespace, or for cluster-scoped objects inside default, as is usual for their Events. With
// inside, everything is reported in the namespace of the object.
func digestOf(source, namespace string, inside bool) Target {
	if inside {
		return Target{Name: namespace, Inside: true}
	}
	out := targetOf(source, cmp.Or(namespace, metav1.NamespaceDefault))
	level := lifetime.ParseSource(source).Level
	out.Inside = level != lifetime.LevelNamespace && level != lifetime.LevelPolicy
	return out
}

// targetOf is the target of the digest of a summary. A policy that does not exist is none: the
// author of an object may have written the stamp, and each name that they invent would be an Event
// in namespace default.
func (o *DigestOptions) targetOf(s *engine.Summary) Target {
	target := digestOf(s.Source, s.Namespace, o.Inside)
	if target.Policy && o.UIDs(target) == "" {
		return digestOf("", s.Namespace, o.Inside)
	}
	return target
}

// others is the target of the digest that a source shares with others: cluster-scoped objects have
// it, too. With Inside no other namespace than the source's own may be written, and there are few.
func (o *DigestOptions) others(target Target) Target {
	if o.Inside {
		return target
	}
	return digestOf("", "", false)
}

// home is the namespace that holds the Events about the target.
func (t Target) home() string {
	if t.Inside {
		return t.Name
	}
	return metav1.NamespaceDefault
}

// UIDs looks up the UID of a target; "" if it is unknown. kubectl describe finds Events by it.
type UIDs func(Target) types.UID

func (t Target) reference(uids UIDs) corev1.ObjectReference {
	reference := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: t.Name, UID: uids(t)}
	if t.Inside {
		reference.Namespace = t.Name // The API server demands that of an Event there.
	}
	if t.Policy {
		reference.APIVersion, reference.Kind = v1alpha1.GroupVersion.String(), "LifecyclePolicy"
	}
	return reference
}
