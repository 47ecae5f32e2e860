package policy

import "fmt"

// NoDefault says why the object may not be given a default ("is owned by JobSet a"), or returns ""
// (S5). A child that is deleted alone breaks its JobSet, TrainJob or Workflow.
func NoDefault(facts *Facts) string {
	if reason := noDefault(facts); reason != "" {
		return reason
	}
	if facts.Owner != nil && !facts.isCronJobsJob() && !facts.isJobsPod() {
		return fmt.Sprintf("is owned by %s %s", facts.Owner.Kind, facts.Owner.Name)
	}
	return ""
}

// noDefault is [NoDefault] for an object whose owner does not mind, such as a Pod that a PodTally
// has counted.
func noDefault(facts *Facts) string {
	if facts.Protected() {
		// The kind's own controller would act on a native field, whatever the annotation says.
		return "is protected"
	}
	if facts.CurfewsOwn() {
		return "is part of Curfew" // No TTL, label or deadline of Curfew's deletes it.
	}
	if manager := facts.ForeignManager(); manager != "" {
		return "is managed by " + manager
	}
	if facts.IsPod() {
		if facts.AlwaysRestarts() {
			return "has restartPolicy Always"
		}
	}
	return ""
}

func (f *Facts) isCronJobsJob() bool {
	return f.Profile.Kind.GroupKind() == JobProfile.Kind.GroupKind() && f.OwnedByCronJob()
}

// isJobsPod reports whether the object is a Pod of a Job. Only those who ask for its deletion by
// name give it a TTL: the Job, default-pod-ttl, and policies for Pods.
func (f *Facts) isJobsPod() bool { return f.IsPod() && f.OwnedByJob() }

// LeftToPolicies reports which defaults of an object depend on the policies: those that its
// namespace does not set. Its own values make no difference, since a default that was filled in has
// to be recognised.
func LeftToPolicies(facts *Facts, namespace *NamespacePolicy) (ttl, deadline bool) {
	if namespace == nil {
		return true, true
	}
	return namespace.ttlFor(facts).Empty(), namespace.Deadline == nil
}

// ttlFor returns the TTL that the namespace sets for one object. default-pod-ttl wins for Pods, and
// is all of a namespace that applies to owned Pods.
func (n *NamespacePolicy) ttlFor(facts *Facts) TTLSet {
	if facts.IsPod() && (n.PodTTL != nil || facts.Owner != nil) {
		return TTLSet{All: n.PodTTL}
	}
	return n.TTL
}
