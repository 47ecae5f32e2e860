package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
)

// ByController reports whether a known controller creates the object for the object's controller
// owner. The reference alone proves nothing, since every author of an object writes it.
func (r *Request) ByController(profiles policy.Profiles) bool {
	if r.Operation != Create || r.Facts.Owner == nil {
		return false
	}
	return r.User.Name == policy.ControllerManager || slices.Contains(r.Options.ControllerAccounts, r.User.Name) ||
		profiles.HaveController(r.User.Name)
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
