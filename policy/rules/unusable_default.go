package rules

import (
	"curfew.dev/curfew/policy/resolution"
)

// unusableDefault warns that the default for a new object cannot be used, so that the object has
// none.
var unusableDefault = Rule{
	Name:  "unusable-default",
	InUse: []string{""},
	Check: func(s *Subject) []Finding {
		if s.IsTemplate() || isNamespace(s.Facts) {
			return nil
		}
		creating := *s.Scope
		creating.Creating = true
		effective := resolution.Resolve(s.Facts, &creating)
		var out []Finding
		for _, value := range []resolution.Value{effective.Succeeded, effective.Failed, effective.Deadline} {
			if value.Default && value.Err != nil {
				out = append(out, warning("", value.Path+value.Text, "no default from "+value.Path+" of "+value.Source.Phrase()+": "+value.Err.Error()))
				break
			}
		}
		if s.Operation == Create {
			if text, said := resolution.DefaultLabel(s.Facts, s.Scope, s.Now); text == "" && said != nil {
				out = append(out, warning("", said.Path+said.Text, "no TTL label from "+said.Path+" of "+said.Source.Phrase()+": "+said.Err.Error()))
			}
		}
		return out
	},
}
