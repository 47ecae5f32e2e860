package cleanup

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// seen is the part of a policy that the controller keeps.
type seen struct {
	spec
	// stalled is the reason why the policy does not delete all that it should, or "".
	stalled string
}

// spec is what a run depends on. A policy is looked at again when it changes.
type spec struct {
	uid        types.UID
	generation int64
	created    time.Time
	suspended  bool
	deleting   bool
}

func see(object *unstructured.Unstructured) seen {
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	out := seen{spec: spec{object.GetUID(), object.GetGeneration(), object.GetCreationTimestamp().Time, suspended, object.GetDeletionTimestamp() != nil}}
	if !suspended && !out.deleting {
		out.stalled = stalledReason(object)
	}
	return out
}

// stalledReason is that of the first condition that reports a policy that does not delete all that
// it should: it cannot be used, its account lacks a permission, or its last run was stalled.
func stalledReason(object *unstructured.Unstructured) string {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	content, _, _ := unstructured.NestedMap(object.Object, "status")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status) != nil {
		return "" // The schema does not admit it.
	}
	for _, bad := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{
		{v1alpha1.ConditionReady, metav1.ConditionFalse},
		{v1alpha1.ConditionPermissionsGranted, metav1.ConditionFalse},
		{v1alpha1.ConditionStalled, metav1.ConditionTrue},
	} {
		if c := meta.FindStatusCondition(status.Conditions, bad.condition); c != nil && c.Status == bad.status {
			if !slices.Contains(reasons, c.Reason) {
				return otherReason // Others may have written it: each would be a series.
			}
			return c.Reason
		}
	}
	return ""
}

// reasons are those that Curfew gives, and otherReason stands for all others.
var reasons = []string{
	v1alpha1.ReasonInvalidField, v1alpha1.ReasonInvalidExpression, v1alpha1.ReasonForbidden, v1alpha1.ReasonTooManyMatches, v1alpha1.ReasonTooManyGroups,
	v1alpha1.ReasonWaitingForApproval, v1alpha1.ReasonPaused, v1alpha1.ReasonKindNotListed, v1alpha1.ReasonTimeLimit, v1alpha1.ReasonRunFailed,
}

const otherReason = "Other"

// known reports whether a policy of this name is known: it may have been created again during a run
// of the old one.
func (c *Controller) known(key string) bool {
	resource, name, _ := strings.Cut(key, "/")
	mirror := c.cluster
	if resource == v1alpha1.CleanupPolicies {
		mirror = c.namespaced
	}
	_, ok := mirror.Get(name)
	return ok
}

// stillApplies reports whether a policy is still what a run applies.
func (c *Controller) stillApplies(p *cleanup.Policy) bool {
	mirror, key := c.cluster, p.Name
	if p.Namespace != "" {
		mirror, key = c.namespaced, p.Namespace+"/"+p.Name
	}
	now, ok := mirror.Get(key)
	return ok && now.uid == p.UID && now.generation <= p.Generation && !now.suspended && !now.deleting
}

// namespaceOf is the namespace in the key of a policy. A ClusterCleanupPolicy counts as a namespace
// of its own: only administrators write them, and each may have to list the whole cluster.
func namespaceOf(key string) string {
	_, name, _ := strings.Cut(key, "/")
	namespace, _, namespaced := strings.Cut(name, "/")
	if !namespaced {
		return key
	}
	return namespace
}
