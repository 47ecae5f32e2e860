package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// forbiddenField refuses what a profile says must not be set: in a training runtime a TTL or deadline inside the template,
// which would take the JobSet or single Jobs away under the TrainJob that uses them.
//
// Restricted fields: those of the profile, such as spec.template.spec.ttlSecondsAfterFinished and
// spec.template.spec.replicatedJobs[*].template.spec.{ttlSecondsAfterFinished,activeDeadlineSeconds} of runtimes.
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
		return out
	},
}
