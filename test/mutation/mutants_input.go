package main

const surveys = "controller/cleanup/survey"

// ofInput have cleanup runs trust what others wrote, or what they do not know.
var ofInput = []Mutant{
	{
		Invariant: "S6", Name: "volumes are listed without the field that says whether they are mounted",
		File: "policy/cleanup/targets.go",
		Old:  "return p.Expressions.NeedsObject || slices", New: "return p.Expressions.NeedsObject || false && slices",
		Package: matches, Tests: []string{"TestLookupsNeedTheirFields"},
	},
	{
		Invariant: "S6", Name: "a lookup answers for an object without its spec",
		File: "policy/cleanup/targets.go",
		Old:  "!shown {", New: "!shown && name == \"-\" {",
		Package: matches, Tests: []string{"TestLookupsNeedTheirFields"},
	},
	{
		Invariant: "S6", Name: "an operator passes over a lookup without an answer",
		File: "policy/cleanup/judge.go",
		Old:  "case matched && o.unknown != nil:", New: "case false:",
		Package: matches, Tests: []string{"TestUnknownLookupsKeep"},
	},
	{
		Invariant: "S6", Name: "a claimRef without a namespace is no claim",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "return false, fmt.Errorf(\"%s: spec.claimRef names no claim\", expression.LookupMounted)", New: "return false, nil",
		Package: surveys, Tests: []string{"TestClaimOfAVolume"},
	},
	{
		Invariant: "S6", Name: "a dry run is one because the status says so",
		File: "controller/cleanup/run.go",
		Old:  "r.info.DryRun = r.policy.Spec.DryRun ||", New: "r.info.DryRun = r.info.DryRun ||",
		Package: cleans, Tests: []string{"TestForgedStatuses"},
	},
	{
		Invariant: "S6", Name: "a resumed run takes its clock from the status",
		File: "controller/cleanup/state.go",
		Old:  "Now: r.cur.now,", New: "Now: r.info.StartTime.Time,",
		Package: cleans, Tests: []string{"TestForgedStatuses"},
	},
	{
		Invariant: "S6", Name: "a resumed run takes its limits from the status",
		File: "controller/cleanup/resume.go",
		Old:  "max(run.Deleted, counted)", New: "max(run.Deleted, counted-counted)",
		Package: cleans, Tests: []string{"TestForgedStatuses"},
	},
	{
		Invariant: "S7", Name: "results that others wrote on a page are counted",
		File: "controller/cleanup/resume.go",
		Old:  "item.Result == v1alpha1.ItemUnknown, \"\"", New: "item.Result == v1alpha1.ItemUnknown, item.Result",
		Package: cleans, Tests: []string{"TestForgedResults"},
	},
	{
		Invariant: "S6", Name: "pages of others push out the pages of the last runs",
		File: "controller/cleanup/pages.go",
		Old:  " && !slices.Contains(s.status.Runs, run) {", New: " {",
		Package: cleans, Tests: []string{"TestForgedReports"},
	},
	{
		Invariant: "S6", Name: "a status starts runs that the schedule does not",
		File: "controller/cleanup/resume.go",
		Old:  "case !cur.hasBegun(status.LastRun):", New: "case false:",
		Package: cleans, Tests: []string{"TestForgedRun"},
	},
	{
		Invariant: "S6", Name: "a lookup forgets the kinds that discovery lost",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "if l.lost != nil {", New: "if false {",
		Package: surveys, Tests: []string{"TestMountedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "discovery that is partial counts as whole",
		File: "cmd/curfew/triggers.go",
		Old:  "err = silent(failed)", New: "_, err = silent(failed), nil",
		Package: "cmd/curfew", Tests: []string{"TestServedIsNotAll"},
	},
	{
		Invariant: "S6", Name: "a run begins before the KindProfiles are known",
		File: "controller/cleanup/survey/survey.go",
		Old:  "err = snapshot.Incomplete()", New: "_ = snapshot.Incomplete()",
		Package: surveys, Tests: []string{"TestKindProfilesAreNotKnown"},
	},
	{
		Invariant: "S3", Name: "one failed LIST drops a kind from a run",
		File: "controller/cleanup/survey/pages.go",
		Old:  "tries == listWaits", New: "tries == 0",
		Package: cleans, Tests: []string{"TestListFailsForAMoment"},
	},
	{
		Invariant: "S6", Name: "a live lookup trusts the discovery of the run's start",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "served, failed = s.options.Served(ctx)", New: "served, _ = s.options.Served(ctx)",
		Package: surveys, Tests: []string{"TestDiscoveryFailsDuringARun"},
	},
	{
		Invariant: "S6", Name: "an object without a known reference is unused while a kind may be missing",
		File: "controller/cleanup/survey/references.go",
		Old:  "if r.unknown != nil {", New: "if false {",
		Package: surveys, Tests: []string{"TestReferencedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "an object that is newer than the lists is unused",
		File: "policy/references/references.go",
		Old:  "if one == nil {", New: "if one == nil {\n\t\treturn false, nil\n\t}\n\tif false {",
		Package: surveys, Tests: []string{"TestObjectIsNewerThanItsReferences"},
	},
	{
		Invariant: "S6", Name: "a new object is unused before anything refers to it",
		File: "policy/cleanup/lookups.go",
		Old:  "case facts.Created.IsZero() ||", New: "case false &&",
		Package: matches, Tests: []string{"TestReferenced"},
	},
	{
		Invariant: "S6", Name: "what programs find is unused",
		File: "policy/cleanup/lookups.go",
		Old:  "found := lookup ==", New: "found := false && lookup ==",
		Package: matches, Tests: []string{"TestReferenced"},
	},
	{
		Invariant: "S6", Name: "a lookup decides about a NetworkPolicy",
		File: "policy/cleanup/targets.go",
		Old:  "case !o.report && guarded(o.Resource.Group, o.Resource.Resource):", New: "case false:",
		Package: matches, Tests: []string{"TestLookupsOfGuardedKinds"},
	},
	{
		Invariant: "S10", Name: "the data of Secrets is read for references",
		File: "controller/cleanup/survey/references.go",
		Old:  "whole := kind != schema", New: "whole := true || kind != schema",
		Package: surveys, Tests: []string{"TestSecretsAreReadAsMetadata"},
	},
	{
		Invariant: "S3", Name: "one kind that cannot be listed ends the run for the others",
		File: "controller/cleanup/survey/pages.go",
		Old:  "if ok && OfItsKind(list.err) {", New: "if ok && false {",
		Package: surveys, Tests: []string{"TestOneKindCannotBeListed"},
	},
	{
		Invariant: "S3", Name: "a time in the future stops a policy",
		File: "controller/cleanup/state.go",
		Old:  "last.After(after) && !cur.ahead(last.Time) {", New: "last.After(after) {",
		Package: cleans, Tests: []string{"TestDue", "TestClockWasAhead"},
	},
	{
		Invariant: "S3", Name: "a resumed run counts what it has deleted among the matches alone",
		File: "policy/cleanup/limits.go",
		Old:  "matched, all = matched+deleted, all+deleted", New: "matched += deleted",
		Package: cleans, Tests: []string{"TestKilledAtEveryRequest"},
	},
	{
		Invariant: "S10", Name: "a run goes on after its account or its approval was deleted",
		File: "controller/cleanup/batch.go",
		Old:  "b.unconfirmed = b.run.confirm(ctx)", New: "b.unconfirmed = nil",
		Package: cleans, Tests: []string{"TestAccountIsDeletedInMidRun", "TestApprovalIsDeletedInMidRun"},
	},
	{
		Invariant: "S12", Name: "a policy that was suspended goes on where the watch is silent",
		File: "controller/cleanup/gates.go",
		Old:  "if err := r.ledger.store.confirm(ctx); err != nil {", New: "if err := ctx.Err(); err != nil {",
		Package: cleans, Tests: []string{"TestSuspendedWhileTheWatchIsSilent"},
	},
	{
		Invariant: "S3", Name: "each page of a paused kind holds the run for a quarter of an hour",
		File: "controller/cleanup/batch.go",
		Old:  "if b.run.futile(b.order) {", New: "if false {",
		Package: cleans, Tests: []string{"TestPausedKindDoesNotHoldARunForDays"},
	},
	{
		Invariant: "S3", Name: "a failed read of the account interrupts a run at once",
		File: "controller/cleanup/batch.go",
		Old:  "idle > patience || ends(b.unconfirmed)", New: "idle > 0",
		Package: cleans, Tests: []string{"TestConfirmationFailsForAMoment"},
	},
	{
		Invariant: "S10", Name: "expressions for one object have no limit together",
		File: "controller/cleanup/survey/passes.go",
		Old:  "ctx = expression.Limited(ctx, objectCost,", New: "_ = expression.Limited(ctx, objectCost,",
		Package: surveys, Tests: []string{"TestExpressionsAreLimited"},
	},
	{
		Invariant: "S10", Name: "a namespace keeps several turns while another one waits",
		File: "controller/cleanup/turns.go",
		Old:  "if t.held[u.namespace] > 1 {", New: "if false && t.held[u.namespace] > 1 {",
		Package: cleans, Tests: []string{"TestYieldWithinAPage"},
	},
	{
		Invariant: "S10", Name: "a run lists and judges without an end",
		File: "controller/cleanup/state.go",
		Old:  "r.until > 0 && r.cur.turn.total() >= r.until", New: "r.until < 0",
		Package: cleans, Tests: []string{"TestRunTime"},
	},
}
