package health

import (
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// inTree shows whether kube-controller-manager's own TTL controller runs, which deletes Jobs by
// spec.ttlSecondsAfterFinished as well. Each controller of it has a ServiceAccount, which is made
// when that controller first starts.
func (r *reader) inTree() (State, string) {
	presence := func(name string) world.Presence {
		_, presence, err := world.Read[corev1.ServiceAccount](r.ctx, r.w, corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "kube-system", name)
		if err != nil {
			r.note("%s", err)
		}
		return presence
	}
	const reads = "it deletes Jobs by spec.ttlSecondsAfterFinished, too"
	switch ttl := presence("ttl-after-finished-controller"); {
	case ttl == world.Found:
		return OK, "on, by its ServiceAccount: " + reads
	case ttl == world.Missing && presence("namespace-controller") == world.Found:
		return OK, "off: kube-controller-manager has never run it, by its ServiceAccounts"
	case ttl == world.Unread:
		r.note(`you may not get serviceaccounts in namespace "kube-system": whether Kubernetes' own TTL controller runs is not known`)
	}
	return Unknown, "on by Kubernetes' default: " + reads
}
