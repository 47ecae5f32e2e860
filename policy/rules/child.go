package rules

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// ByController reports whether the controller of the object's controller owner creates the object.
// The reference alone proves nothing, since every author of an object writes it. Nor does an
// account alone: where a product is not installed, a tenant may own its namespace. So an account
// of a profile counts for owners of that kind.
func (r *Request) ByController(profiles policy.Profiles) bool {
	if r.Operation != Create || r.Facts.Owner == nil {
		return false
	}
	if r.User.Name == policy.ControllerManager || slices.Contains(r.Options.ControllerAccounts, r.User.Name) {
		return true
	}
	owner, child := schema.FromAPIVersionAndKind(r.Facts.Owner.APIVersion, r.Facts.Owner.Kind), r.Facts.Profile
	return slices.Contains(profiles.For(owner).ControllerAccounts, r.User.Name) ||
		// Argo Workflows creates the Workflows of a CronWorkflow, which has no profile.
		owner.Group == child.Kind.Group && slices.Contains(child.ControllerAccounts, r.User.Name)
}

// AdmitChild turns denials into warnings for an object that [Request.ByController] accepts:
// the controller carries out what someone else wrote, perhaps before the rule existed. With a
// denial a Deployment could not roll out, nor a CronJob run. Curfew keeps such an object and
// reports it (S6). inherited reports whether a denied value comes from the owner; nil means that it
// cannot be known.
func (r *Request) AdmitChild(decision *Decision, inherited func(Finding) bool) {
	for i := range decision.Findings {
		finding := &decision.Findings[i]
		if finding.Severity != Deny || inherited != nil && !inherited(*finding) {
			continue
		}
		finding.Severity = Warn
		finding.Message = fmt.Sprintf("admitted only because %s %s controls it: %s", r.Facts.Owner.Kind, r.Facts.Owner.Name, finding.Message)
	}
}
