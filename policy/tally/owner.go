package tally

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
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
	by, ok := pod.Annotations[policy.AnnotationCountedBy]
	return ok && by != policy.CountedByNobody
}

// Held reports whether the Pod has the finalizer of tallies.
func Held(pod *policy.Facts) bool { return slices.Contains(pod.Finalizers, policy.FinalizerTally) }

// Adoptable reports whether an existing Pod may get the finalizer. The API server adds none to a
// Pod that is being deleted.
func Adoptable(pod *policy.Facts) bool {
	return !pod.Deleting && !Held(pod) && !Counted(pod) && Exempt(pod) == ""
}

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

// Conflicts are the tallies that match a Pod which an older one counts.
func Conflicts(tallies []*Tally, pod *policy.Facts) []*Tally {
	owner := Owner(tallies, pod)
	var out []*Tally
	for _, tally := range tallies {
		if tally != owner && tally.Selects(pod) {
			out = append(out, tally)
		}
	}
	return out
}
