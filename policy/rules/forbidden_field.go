package rules

import (
	"fmt"
	"slices"
)

// forbiddenField denies what a profile forbids: in a training runtime a TTL or deadline that would
// delete the JobSet or single Jobs under the TrainJob, and a TTL or deadline in metadata that the
// kind's controller copies onto the objects it creates. Trainer creates a deleted JobSet again, and
// so repeats the training.
var forbiddenField = Rule{
	Name:   "forbidden-field",
	Fields: append(below(InInherited), ForbiddenField),
	Beside: below(inClaim),
	Check: func(s *Subject) {
		for _, forbidden := range s.Profile.Forbidden {
			forbidden.Path.Walk(s.Object, func(found string, value any) {
				s.deny(found, fmt.Sprint(value), "must not be set: "+forbidden.Reason)
			})
		}
		creator := s.Profile.Kind.Kind
		if s.Profile.RuntimeOf != "" {
			creator = s.Profile.RuntimeOf
		}
		for _, path := range s.Profile.Inherited() {
			why := "the objects that " + a(creator) + " creates inherit it, and a deleted one is created again"
			if slices.Contains(path, "volumeClaimTemplate") {
				why = "the claim of the volume inherits it, and would be deleted while its Pod needs it"
			}
			path.Walk(s.Object, func(found string, value any) {
				metadata, _ := value.(map[string]any)
				for _, key := range s.lifetimeKeys(metadata) {
					s.deny(found+"."+key.path, key.text, "must not be set: "+why+": "+key.fix)
				}
			})
		}
	},
}
