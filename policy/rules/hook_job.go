package rules

import (
	"curfew.dev/curfew/policy"
)

// hookJob warns of a TTL on a hook of Argo CD or Helm: both wait for the object, and fail when it
// is deleted.
var hookJob = Rule{
	Name:   "hook-job",
	Fields: ttlFields,
	Check: func(s *Subject) {
		if s.IsTemplate() || !actsOnItself(s) {
			return
		}
		for _, setting := range s.TTLs().Settings() {
			for _, hook := range hooks {
				if _, ok := s.Annotations[hook.key]; ok && setting.Ends() {
					s.warn(setting.Path, setting.Text, hook.trouble)
					return
				}
			}
		}
	},
}

var hooks = []struct{ key, trouble string }{
	{"argocd.argoproj.io/hook", "Argo CD may sync again when its hook is deleted: use argocd.argoproj.io/hook-delete-policy"},
	{"helm.sh/hook", "helm may fail when its hook is deleted during a release: use helm.sh/hook-delete-policy"},
}

func isHook(facts *policy.Facts) bool {
	for _, hook := range hooks {
		if _, ok := facts.Annotations[hook.key]; ok {
			return true
		}
	}
	return false
}
