package rules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// trainJobsJobSet denies a TTL on a JobSet that a TrainJob controls: Trainer creates a deleted
// JobSet again, and so repeats the training. Only people are denied. What Trainer writes comes from
// the TrainJob or its runtime, and gets a warning.
var trainJobsJobSet = Rule{
	Name:   "trainjob-jobset",
	Fields: lifetimeFields,
	Check: func(s *Subject) {
		if s.IsTemplate() || s.Profile.Kind.GroupKind() != jobSetKind || !s.OwnedBy("trainer.kubeflow.org", "TrainJob") {
			return
		}
		complain := s.warn
		if s.User.IsPerson() {
			complain = s.deny
		}
		const loop = "TrainJob %s controls this JobSet, and runs again after the JobSet is deleted: set %s on the TrainJob or its runtime"
		message := fmt.Sprintf(loop, s.Owner.Name, policy.AnnotationPath(wellknown.AnnotationTTL))
		for _, setting := range s.TTLs().Settings() {
			if setting.Ends() {
				complain(setting.Path, setting.Text, message)
			}
		}
		if key, text, ok := s.Options.ttlLabel(s.Facts); ok {
			complain(policy.LabelPath(key), text, message)
		}
	},
}

var jobSetKind = schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}
