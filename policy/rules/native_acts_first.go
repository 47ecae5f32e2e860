package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// nativeActsFirst refuses an annotation that the kind's own controller would overtake: it reads the native field alone.
//
// Restricted fields: metadata.annotations[curfew.dev/ttl-after-*, protect] beside the native TTL field.
// Allowed values: a TTL of at most the native field's. Protection is warned about: it binds Curfew, and nobody else.
var nativeActsFirst = Rule{
	Name: "native-acts-first",
	Check: func(s *Subject) []policy.Finding {
		set := s.TTLs()
		native := set.Native
		if native == nil || native.Err != nil {
			return nil
		}
		var out []policy.Finding
		if s.Protected() && !s.IsTemplate() {
			out = append(out, s.warn(native.Path, native.Text, fmt.Sprintf("the %s's own controller deletes by this field, whatever %s says: remove one",
				s.Profile.Kind.Kind, policy.AnnotationProtect)))
		}
		for _, setting := range set.Settings() {
			if setting == native || setting.Err != nil {
				continue
			}
			if setting.TTL.Never || setting.TTL.After > native.TTL.After {
				out = append(out, s.deny(setting.Path, setting.Text+" "+native.Text, fmt.Sprintf(
					"%s is longer than %s %s, which the %s's own controller acts on first: remove one",
					setting.TTL, s.path(native.Path), native.Text, s.Profile.Kind.Kind)))
			}
		}
		return out
	},
}
