package coverage

import (
	"strings"

	"curfew.dev/curfew/policy"
)

// static are the kinds of Kubernetes itself, and what manifests/webhook has sent of them. A test evaluates both together.
// ReplicaSets are left out: those of a Deployment are not their author's.
func static() []*sent {
	job, pod, cronJob := typedSubject(policy.JobProfile), typedSubject(policy.PodProfile), typedSubject(policy.CronJobProfile)
	out := []*sent{
		{subject: job, mutatingLabel: policy.LabelInUse, validatingLabel: policy.LabelInUse, mutating: ownKey, validating: job.marked()},
		{subject: cronJob, validatingLabel: policy.LabelInUse, validating: cronJob.marked(), unchanging: true},
		{subject: pod, mutatingLabel: policy.LabelPodsInUse, validatingLabel: policy.LabelPodsInUse, mutating: ownKey, validating: pod.marked(),
			updates: ownKeyChanged},
	}
	for _, profile := range []*policy.Profile{policy.DeploymentProfile, policy.StatefulSetProfile, policy.DaemonSetProfile} {
		out = append(out, &sent{subject: typedSubject(profile), validating: either([]string{ownKey, templateTTL})})
	}
	return out
}

// templateTTL is what manifests/webhook has sent of new workloads that run for ever.
const templateTTL = `object.?spec.?template.?metadata.?annotations.orValue({}).exists(k,
  k.startsWith("` + policy.Prefix + `ttl-after-") || k == "` + policy.AnnotationActiveDeadline + `") ||
object.?spec.?template.?metadata.?labels.orValue({}).exists(k, k == "` + policy.LabelTTL + `")`

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
