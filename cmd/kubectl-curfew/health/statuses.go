package health

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// statusPolicy is the ValidatingAdmissionPolicy of manifests/rbac/status.yaml, and its binding.
const statusPolicy = "curfew-status"

// statuses checks that only Curfew may write the statuses of its kinds and its reports.
func (r *reader) statuses() (State, string) {
	const hides = "who may write the statuses of Curfew's kinds"
	const others = ": anyone with permission for the statuses of Curfew's kinds can falsify them"
	group := admissionv1.SchemeGroupVersion
	_, policy, err := world.Read[admissionv1.ValidatingAdmissionPolicy](r.ctx, r.w, group.WithResource("validatingadmissionpolicies"), "", statusPolicy)
	r.presence(policy, err, "validatingadmissionpolicies/"+statusPolicy, hides)
	read, binding, err := world.Read[admissionv1.ValidatingAdmissionPolicyBinding](r.ctx, r.w, group.WithResource("validatingadmissionpolicybindings"), "", statusPolicy)
	r.presence(binding, err, "validatingadmissionpolicybindings/"+statusPolicy, hides)
	switch {
	case policy == world.Missing:
		return Warning, "there is no ValidatingAdmissionPolicy " + statusPolicy + others
	case binding == world.Missing:
		return Warning, "there is no ValidatingAdmissionPolicyBinding " + statusPolicy + others
	case policy != world.Found || binding != world.Found:
		return Unknown, "not read"
	case !slices.Contains(read.Spec.ValidationActions, admissionv1.Deny):
		return Warning, "ValidatingAdmissionPolicyBinding " + statusPolicy + " does not deny" + others
	}
	return OK, "only Curfew may write them"
}
