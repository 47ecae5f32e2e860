package coverage

import (
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// static are the kinds of Kubernetes itself, and what manifests/webhook has sent of them. A test evaluates both together.
func static() []*sent {
	job, pod, cronJob := typedSubject(policy.JobProfile), typedSubject(policy.PodProfile), typedSubject(policy.CronJobProfile)
	out := []*sent{
		{subject: job, mutatingLabel: policy.LabelInUse, validatingLabel: policy.LabelInUse, mutating: ownKey, validating: job.touched()},
		{subject: cronJob, validatingLabel: policy.LabelInUse, validating: cronJob.touched(), unchanging: true},
		{subject: pod, mutatingLabel: policy.LabelPodsInUse, validatingLabel: policy.LabelPodsInUse, mutating: ownKey, validating: ownKey,
			updates: ownKey},
	}
	for _, profile := range []*policy.Profile{policy.DeploymentProfile, policy.StatefulSetProfile, policy.DaemonSetProfile} {
		out = append(out, &sent{subject: typedSubject(profile), validating: workloadTouched})
	}
	for _, profile := range []*policy.Profile{policy.ReplicaSetProfile, policy.ReplicationControllerProfile, policy.PodTemplateProfile} {
		out = append(out, &sent{subject: typedSubject(profile), validating: workloadTouched, unchanging: true})
	}
	return out
}

// workloadTouched is what manifests/webhook has sent of workloads that run forever. A PodTemplate has its template beside its metadata.
var workloadTouched = versus(keysDiffer + " ||\n" + keyed(slices.Concat(
	metadata(node{is: "object", was: "old"}.field("spec").field("template").field("metadata")),
	metadata(node{is: "object", was: "old"}.field("template").field("metadata"))), quoted(policy.TemplateKeys)))

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
