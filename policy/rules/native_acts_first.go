package rules

import (
	"fmt"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// nativeActsFirst denies an annotation with a longer TTL than the native field, by which the kind's
// own controller deletes first. It warns of protection beside a native field, since only Curfew
// honours that.
var nativeActsFirst = Rule{
	Name:   "native-acts-first",
	Fields: ttlFields,
	Check: func(s *Subject) {
		set := s.TTLs()
		for _, native := range set.Natives() {
			if native.Err == nil && s.Protected() && !s.IsTemplate() {
				s.warn(native.Path, native.Text, fmt.Sprintf("the %s's own controller deletes by this field, whatever %s says: remove one",
					s.Profile.Kind.Kind, wellknown.AnnotationProtect))
			}
		}
		success, failure := set.NativeFor(lifetime.Succeeded), set.NativeFor(lifetime.Failed)
		for _, rival := range []struct {
			setting *lifetime.Setting
			natives []*lifetime.Setting
		}{
			{set.All, []*lifetime.Setting{success, failure}},
			{set.Succeeded, []*lifetime.Setting{success}},
			{set.Failed, []*lifetime.Setting{failure}},
		} {
			if native := overtaking(rival.setting, rival.natives); native != nil {
				s.deny(rival.setting.Path, rival.setting.Text+" "+native.Text, fmt.Sprintf(
					"%s is longer than %s %s, which the %s's own controller acts on first: remove one",
					rival.setting.Shown(), s.path(native.Path), native.Shown(), s.Profile.Kind.Kind))
			}
		}
	},
}

// overtaking is the first native field with a shorter TTL than the setting, or nil.
func overtaking(setting *lifetime.Setting, natives []*lifetime.Setting) *lifetime.Setting {
	if setting == nil || setting.Err != nil {
		return nil
	}
	for _, native := range natives {
		if native != nil && native.Err == nil && (setting.TTL.Never || setting.TTL.After > native.TTL.After) {
			return native
		}
	}
	return nil
}
