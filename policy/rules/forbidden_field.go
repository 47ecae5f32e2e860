package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// forbiddenField denies what a profile says must not be set: in a training runtime a TTL or deadline inside the template, by
// which the JobSet or single Jobs would be deleted under the TrainJob that uses them, and a TTL or deadline in metadata that the
// kind's controller copies onto what it creates. Trainer creates a JobSet that is gone again, and so runs the training again.
//
// Restricted fields: those of the profile, such as spec.template.spec.ttlSecondsAfterFinished and
// spec.template.spec.replicatedJobs[*].template.spec.{ttlSecondsAfterFinished,activeDeadlineSeconds} of runtimes; in inherited
// metadata, such as spec.template.metadata of runtimes and spec.{annotations,labels} of a TrainJob, annotations
// curfew.dev/ttl-after-*, active-deadline and label curfew.dev/ttl, and its alias with --kyverno-label.
// Allowed values: absent.
var forbiddenField = Rule{
	Name: "forbidden-field",
	Check: func(s *Subject) []policy.Finding {
		var out []policy.Finding
		for _, forbidden := range s.Profile.Forbidden {
			forbidden.Path.Walk(s.Object, func(at string, value any) {
				out = append(out, s.deny(at, fmt.Sprint(value), "must not be set: "+forbidden.Reason))
			})
		}
		creator := s.Profile.Kind.Kind
		if s.Profile.RuntimeOf != "" {
			creator = s.Profile.RuntimeOf
		}
		for _, path := range s.Profile.InheritedMetadata {
			path.Walk(s.Object, func(at string, value any) {
				metadata, _ := value.(map[string]any)
				for _, key := range s.lifetimeKeys(metadata) {
					out = append(out, s.deny(at+"."+key.path, key.text,
						fmt.Sprintf("must not be set: the objects that a %s creates inherit it, and one that is gone is created again: %s", creator, key.fix)))
				}
			})
		}
		return out
	},
}
