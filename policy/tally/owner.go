package tally

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// Exempt says why no tally counts a Pod ("belongs to a Job, which counts it"), or returns "".
func Exempt(pod *policy.Facts) string {
	switch _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; {
	case pod.OwnedByJob(), pod.Uncounted():
		return "belongs to a Job, which counts it"
	case mirror:
		return "is a mirror Pod, which the kubelet deletes"
	case pod.AlwaysRestarts():
		return "has restartPolicy Always, so it never finishes"
	case pod.CurfewsOwn():
		return "is part of Curfew"
	case pod.MultiKueueCopy():
		return "is a copy made by MultiKueue"
	}
	return ""
}

// Counted reports whether a tally has counted the Pod. No tally adopts it again (S7).
func Counted(pod *policy.Facts) bool {
	by, ok := pod.Annotations[wellknown.AnnotationCountedBy]
	return ok && by != wellknown.CountedByNone
}

// Held reports whether the Pod has the finalizer of tallies.
func Held(pod *policy.Facts) bool { return slices.Contains(pod.Finalizers, wellknown.FinalizerTally) }

// Before reports whether t keeps a Pod that both tallies match: the older one does, or else the one
// whose name comes first. One that is not created yet is the youngest.
func (t *Tally) Before(other *Tally) bool {
	switch {
	case t.Created.Equal(other.Created):
		return t.Name < other.Name
	case t.Created.IsZero() || other.Created.IsZero():
		return other.Created.IsZero()
	}
	return t.Created.Before(other.Created)
}

// Owner is the tally that counts a Pod, or nil.
func Owner(tallies []*Tally, pod *policy.Facts) *Tally {
	if len(tallies) > MaxPerNamespace {
		tallies, _ = Within(tallies)
	}
	var owner *Tally
	for _, tally := range tallies {
		if (owner == nil || tally.Before(owner)) && tally.Selects(pod) {
			owner = tally
		}
	}
	return owner
}

// MaxPerNamespace is how many PodTallies of a namespace count Pods: the oldest do. Each is matched
// with every Pod of the namespace, and kept with each Pod that it matches (S9).
const MaxPerNamespace = 100

// Within returns the tallies of a namespace that count, the oldest first, and the others. Those
// that are being deleted do neither.
func Within(tallies []*Tally) (counting, excess []*Tally) {
	counting = slices.DeleteFunc(slices.Clone(tallies), func(each *Tally) bool { return each.Deleting })
	slices.SortFunc(counting, func(a, b *Tally) int {
		switch {
		case a.Before(b):
			return -1
		case b.Before(a):
			return 1
		}
		return 0
	})
	most := min(len(counting), MaxPerNamespace)
	return counting[:most], counting[most:]
}
