package rules

import (
	"curfew.dev/curfew/policy"
)

// hookJob warns of a TTL on a hook of Argo CD or Helm: both wait for the object and report trouble when it vanishes.
//
// Fields: metadata.annotations[argocd.argoproj.io/hook, helm.sh/hook] beside a TTL.
var hookJob = Rule{
	Name: "hook-job",
	Check: func(s *Subject) []policy.Finding {
		settings := s.TTLs().Settings()
		if len(settings) == 0 || s.IsTemplate() {
			return nil
		}
		for _, hook := range []struct{ key, fix string }{
			{"argocd.argoproj.io/hook", "Argo CD may sync again when it vanishes; use argocd.argoproj.io/hook-delete-policy"},
			{"helm.sh/hook", "helm may fail when it vanishes mid-release; use helm.sh/hook-delete-policy"},
		} {
			if _, ok := s.Annotations[hook.key]; ok {
				return []policy.Finding{s.warn(settings[0].Path, settings[0].Text, "on a hook ("+hook.key+"): "+hook.fix)}
			}
		}
		return nil
	},
}
