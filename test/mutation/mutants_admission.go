package main

// admission is what stands between a tenant and the platform's rules.
var admission = []Mutant{
	{
		Invariant: "S6", Name: "an owner reference alone turns a denial into a warning",
		File: "webhook/validate.go",
		Old:  "if !review.ByController(profiles) || ", New: "if owner == nil || ",
		Package: admits, Tests: []string{"TestForgedOwner"},
	},
	{
		Invariant: "S6", Name: "any service account counts as a controller",
		File: "policy/rules/child.go",
		Old:  "if r.User.Name == policy.ControllerManager ||", New: "if !r.User.IsPerson() ||",
		Package: rulesOf, Tests: []string{"TestChildrenOfControllersAreAdmitted"},
	},
	{
		Invariant: "S6", Name: "an account of a profile counts for owners of any kind",
		File: "policy/rules/child.go",
		Old:  "owner.Group == child.Kind.Group && slices", New: "slices",
		Package: rulesOf, Tests: []string{"TestChildrenOfControllersAreAdmitted"},
	},
	{
		Invariant: "S6", Name: "a controller gets past a rule for a value that its owner does not have",
		File: "policy/rules/child.go",
		Old:  "|| inherited != nil && !inherited(*finding) {", New: "{",
		Package: rulesOf, Tests: []string{"TestChildIsDeniedForItsOwnValue"},
	},
	{
		Invariant: "S6", Name: "a policy's defaults reach objects older than the policy",
		File: "policy/expression/policy.go",
		Old:  "out.Since.Before(created) {", New: "false {",
		Package: "policy/expression", Tests: []string{"TestStampPolicy"},
	},
	{
		Invariant: "S6", Name: "a forged sinceTime is not corrected",
		File: "policy/expression/policy.go",
		Old:  " && !stands.SinceTime.Time.Before(object.CreationTimestamp.Time):", New: ":",
		Package: "policy/expression", Tests: []string{"TestStampPolicy"},
	},
}
