package rules

import (
	"curfew.dev/curfew/policy/resolution"
)

// unusableDefault warns that the default for a new object cannot be used, so that the object has
// none.
var unusableDefault = Rule{
	Name:  "unusable-default",
	InUse: []string{""},
	Check: func(s *Subject) {
		if s.IsTemplate() || s.IsNamespace() {
			return
		}
		creating := *s.Scope
		creating.Creating = true
		effective := resolution.Resolve(s.Facts, &creating)
		for _, value := range []resolution.Value{effective.Succeeded, effective.Failed, effective.Deadline} {
			if value.Default && value.Err != nil {
				s.warn("", value.Path+value.Text, "no default from "+value.Path+" of "+value.Source.Phrase()+": "+value.Err.Error())
				break
			}
		}
		if s.Operation == Create {
			if text, setting := resolution.DefaultLabel(s.Facts, s.Scope, s.Now); text == "" && setting != nil {
				s.warn("", setting.Path+setting.Text, "no TTL label from "+setting.Path+" of "+setting.Source.Phrase()+": "+setting.Err.Error())
			}
		}
	},
}
