package rules

import (
	"time"

	"curfew.dev/curfew/policy"
)

// gitOps warns of a TTL under an hour on an object that a GitOps tool tracks: the tool would create
// and run the object again.
var gitOps = Rule{
	Name:   "gitops-loop",
	Fields: ttlFields,
	Check: func(s *Subject) {
		tool := gitOpsTool(s.Facts)
		if tool == "" || s.IsTemplate() || isHook(s.Facts) || !actsOnItself(s) {
			return
		}
		for _, setting := range s.TTLs().Settings() {
			if setting.Ends() && setting.TTL.After < gitOpsShort {
				s.warn(setting.Path, setting.Text,
					tool+" tracks this object and creates and runs it again after it is deleted: use a longer TTL or a hook")
				return
			}
		}
	},
}

const gitOpsShort = time.Hour

func gitOpsTool(facts *policy.Facts) string {
	for _, mark := range []struct {
		in        map[string]string
		key, tool string
	}{
		{facts.Annotations, "argocd.argoproj.io/tracking-id", "Argo CD"},
		{facts.Labels, "argocd.argoproj.io/instance", "Argo CD"},
		{facts.Labels, "kustomize.toolkit.fluxcd.io/name", "Flux"},
		{facts.Labels, "helm.toolkit.fluxcd.io/name", "Flux"},
	} {
		if _, ok := mark.in[mark.key]; ok {
			return mark.tool
		}
	}
	return ""
}
