package main

const certificates = "certs"

// ofCertificates cut off the API server while certificates rotate: with failurePolicy Fail nothing
// could be created then.
var ofCertificates = []Mutant{
	{
		Invariant: "S8", Name: "a CA signs before every webhook configuration has it",
		File: "certs/plan.go",
		Old:  "if since, ok := trusted.since(m.next.certificate); ok && !now.Before", New: "if since, _ := trusted.since(m.next.certificate); !now.Before",
		Package: certificates, Tests: []string{"TestRotation", "TestRotationNeverCutsOff"},
	},
	{
		Invariant: "S8", Name: "a CA signs as soon as every webhook configuration has it",
		File: "certs/plan.go",
		Old:  "ok && !now.Before(since.Add(w.settle))", New: "ok && !now.Before(since)",
		Package: certificates, Tests: []string{"TestRotation", "TestRotationNeverCutsOff"},
	},
	{
		Invariant: "S8", Name: "the old CA is dropped as soon as the new one signs",
		File: "certs/plan.go",
		Old:  "return now.Add(w.servingLifetime + w.settle)", New: "return now.Add(w.settle)",
		Package: certificates, Tests: []string{"TestRotation"},
	},
	{
		Invariant: "S8", Name: "a due CA is replaced at once",
		File: "certs/plan.go",
		Old:  "\tm.next, err = newCA(now, w.caLifetime)\n", New: "\tm.signing, err = newCA(now, w.caLifetime)\n",
		Package: certificates, Tests: []string{"TestRotation", "TestRotationNeverCutsOff"},
	},
	{
		Invariant: "S8", Name: "a deleted Secret is not restored from memory",
		File: "certs/plan.go",
		Old:  "m.restore(*seen.last, now)", New: "_ = m.restore",
		Package: certificates, Tests: []string{"TestPlanRepairs"},
	},
	{
		Invariant: "S8", Name: "a CA by which a replica serves is taken out of the bundle",
		File: "certs/plan.go",
		Old:  "m.keep(seen.issuer, seen.expires)", New: "_ = m.keep",
		Package: certificates, Tests: []string{"TestServedCAStays"},
	},
	{
		Invariant: "S8", Name: "a replica serves by a CA that a configuration lacks",
		File: "certs/material.go",
		Old:  "case !l.issuer.Equal(signing) && everywhere:", New: "case !l.issuer.Equal(signing) && (everywhere || true):",
		Package: certificates, Tests: []string{"TestLeafIsNeeded", "TestForeignCAIsAdoptedSlowly"},
	},
	{
		Invariant: "S8", Name: "a CA that one webhook lacks is taken to be everywhere",
		File: "certs/plan.go",
		Old:  "if n < len(bundles) {", New: "if n < 1 {",
		Package: certificates, Tests: []string{"TestTrustIsObserved"},
	},
	{
		Invariant: "S8", Name: "the controller takes a CA out of its configurations by an older static one",
		File: "controller/coverage/configuration.go",
		Old:  "return bytes.Contains(present, static) ||", New: "return bytes.Equal(nil, static) ||",
		Package: "controller/coverage", Tests: []string{"TestKeeperNeverTakesTrustAway"},
	},
	{
		Invariant: "S8", Name: "a change is noticed only after the wait that follows a failure",
		File: "certs/selfsigned.go",
		Old:  "case <-changes: // After", New: "case <-map[bool]chan struct{}{true: changes}[err == nil]: // After",
		Package: certificates, Tests: []string{"TestImmutableSecretIsReplaced"},
	},
}
