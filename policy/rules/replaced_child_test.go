package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// A child that its owner replaces cannot be limited alone. Owners that do not replace it are no
// reason for a warning.
func TestReplacedChild(t *testing.T) {
	const label, web = "warning metadata.labels[curfew.dev/ttl]: ", "when this Pod is deleted, ReplicaSet web creates another one: set metadata.labels[curfew.dev/ttl] on the ReplicaSet or its owner to delete them together"
	labelled := func(apiVersion, kind string) map[string]any {
		return pod().ControlledBy(apiVersion, kind, "web").Label(wellknown.LabelTTL, "7d").RestartPolicy("Always").Map()
	}
	request := Request{Now: noon, User: User{Name: "jane"}}
	for owner, apiVersion := range map[string]string{"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicationController": "v1"} {
		if got := judge(replacedChild, policy.PodProfile, request, nil, labelled(apiVersion, owner)); len(got) != 1 {
			t.Errorf("a Pod of a %s gets %q, want one finding", owner, got)
		}
	}
	equal(t, judge(replacedChild, policy.PodProfile, request, pod().ControlledBy("apps/v1", "ReplicaSet", "web").Map(), labelled("apps/v1", "ReplicaSet")), []string{label + web})
	equal(t, judge(replacedChild, policy.PodProfile, request, labelled("apps/v1", "ReplicaSet"), labelled("apps/v1", "ReplicaSet")), nil)
	equal(t, judge(replacedChild, policy.PodProfile, request, nil, labelled("batch/v1", "Job")), nil)
	equal(t, judge(replacedChild, policy.PodProfile, request, nil, labelled("example.org/v1", "ReplicaSet")), nil)
	equal(t, judge(replacedChild, policy.PodProfile, request, nil, pod().Label(wellknown.LabelTTL, "7d").Map()), nil)
	equal(t, judge(replacedChild, policy.PodProfile, request, nil, pod().ControlledBy("apps/v1", "ReplicaSet", "web").Label(wellknown.LabelTTL, "soon").Map()), nil)
	equal(t, judge(replacedChild, policy.PodProfile, request, nil, put(labelled("apps/v1", "ReplicaSet"), "metadata.annotations", map[string]any{wellknown.AnnotationProtect: "true"})), nil)
	nightly := job().ControlledBy("batch/v1", "CronJob", "nightly").TTL(3600).Label(wellknown.LabelTTL, "7d").Map()
	equal(t, judge(replacedChild, policy.JobProfile, request, nil, nightly), nil)
	trained := job().ControlledBy("jobset.x-k8s.io/v1alpha2", "JobSet", "train").TTL(3600).Annotation(wellknown.AnnotationTTLFailed, "never").Map()
	equal(t, judge(replacedChild, policy.JobProfile, request, nil, trained), []string{
		"warning spec.ttlSecondsAfterFinished: when this Job is deleted, JobSet train creates another one until it has finished: set metadata.labels[curfew.dev/ttl] on the JobSet or its owner to delete them together"})
}
