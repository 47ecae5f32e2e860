package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// replacedChild warns of a TTL or TTL label on an object whose controller owner would create
// another one in its place, such as a Pod of a ReplicaSet.
var replacedChild = Rule{
	Name:   "replaced-child",
	Fields: lifetimeFields,
	Check: func(s *Subject) {
		owner, until := s.ReplacedBy()
		if owner == "" || s.IsTemplate() {
			return
		}
		kind := s.Profile.Kind.Kind
		message := fmt.Sprintf("when this %s is deleted, %s creates another one%s: set %s on the %s or its owner to delete them together",
			kind, owner, until, policy.LabelPath(wellknown.LabelTTL), s.Owner.Kind)
		if actsOnItself(s) && !(s.IsPod() && s.AlwaysRestarts()) { // Such a Pod has no TTL, which another rule denies.
			for _, setting := range s.TTLs().Settings() {
				if setting.Ends() {
					s.warn(setting.Path, setting.Text, message)
				}
			}
		}
		if key, text, ok := s.Options.ttlLabel(s.Facts); ok && s.brake() == "" {
			if _, err := lifetime.ParseLabel(key, text); err == nil {
				s.warn(policy.LabelPath(key), text, message)
			}
		}
	},
}
