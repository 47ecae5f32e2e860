package main

// ofForgers have Curfew believe what tenants wrote into statuses and reports, or delete what
// cannot be known to be deletable.
var ofForgers = []Mutant{
	{
		Invariant: "S6", Name: "a hash that the status claims is approved",
		File: "cmd/kubectl-curfew/approve/approve.go",
		Old:  "if policy.Status.SpecHash != compiled.Hash {", New: "if policy.Status.SpecHash == \"-\" {",
		Package: "cmd/kubectl-curfew", Tests: []string{"TestForgedHashIsNotApproved"},
	},
	{
		Invariant: "S6", Name: "what a page that names another run has deleted is no part of the run",
		File: "controller/cleanup/ledger.go",
		Old:  "if s.LastRun != nil {", New: "if s.LastRun != nil && s.LastRun.ID == page.fields.Run {",
		Package: cleans, Tests: []string{"TestForgedPages"},
	},
	{
		Invariant: "S7", Name: "what a run announced is forgotten with its status",
		File: "controller/cleanup/ledger.go",
		Old:  "run.Lost += int64(len(page.UIDs))", New: "_ = page",
		Package: cleans, Tests: []string{"TestForgedStatuses"},
	},
	{
		Invariant: "S6", Name: "lost objects do not count towards the limits",
		File: "controller/cleanup/resume.go",
		Old:  " + min(max(0, run.Lost), maxCounted), nil", New: ", nil",
		Package: cleans, Tests: []string{"TestForgedPages"},
	},
	{
		Invariant: "S6", Name: "a run takes its percentage from what the status has deleted",
		File: "controller/cleanup/resume.go",
		Old:  "min(max(run.Deleted, counted), maxCounted)", New: "max(run.Deleted, counted)",
		Package: cleans, Tests: []string{"TestForgedStatuses"},
	},
	{
		Invariant: "S7", Name: "the page of another policy is settled",
		File: "controller/cleanup/store.go",
		Old:  "if page.Policy.UID != s.policy.UID {", New: "if page.Policy.UID == \"-\" {",
		Package: cleans, Tests: []string{"TestPagesCount"},
	},
	{
		Invariant: "S6", Name: "a page lowers what a run has deleted",
		File: "controller/cleanup/pages.go",
		Old:  "min(max(0, page.Deleted), maxBatch)", New: "min(page.Deleted, maxBatch)",
		Package: cleans, Tests: []string{"TestPagesCount"},
	},
	{
		Invariant: "S6", Name: "a copy of a page counts",
		File: "controller/cleanup/pages.go",
		Old:  "named := object.GetName() == pageName(s.policy.Name, run, page.Page)", New: "named := true",
		Package: cleans, Tests: []string{"TestPagesCount"},
	},
	{
		Invariant: "S10", Name: "an account that was created again inherits a run",
		File: "controller/cleanup/gates.go",
		Old:  "if uid != r.accountUID {", New: "if uid == \"-\" {",
		Package: cleans, Tests: []string{"TestAccountIsDeletedInMidRun"},
	},
	{
		Invariant: "S10", Name: "an account that is being deleted exists",
		File: "controller/cleanup/account.go",
		Old:  "err == nil && account.DeletionTimestamp != nil:", New: "err == nil && account.UID == \"-\":",
		Package: cleans, Tests: []string{"TestAccountExists"},
	},
	{
		Invariant: "S6", Name: "an approval that was deleted counts to the end of the run",
		File: "controller/cleanup/gates.go",
		Old:  "if err == nil && !approved {", New: "if err == nil && !approved && r.policy == nil {",
		Package: cleans, Tests: []string{"TestApprovalIsDeletedInMidRun"},
	},
	{
		Invariant: "S6", Name: "a PersistentVolume of another claim's name counts as unmounted",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "if err != nil || name == \"\" || namespace == \"\" {", New: "if err != nil || name == \"\" {",
		Package: surveys, Tests: []string{"TestClaimOfAVolume"},
	},
	{
		Invariant: "S6", Name: "a workload that is scaled to zero mounts nothing",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "for i := 0; err == nil && i < len(l.workloads); i++ {", New: "for i := 0; err == nil && i < 0; i++ {",
		Package: surveys, Tests: []string{"TestMountedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "an API group that does not answer has no workloads",
		File:    "controller/cleanup/survey/workloads.go",
		Old:     "if len(profile.PodTemplates)+len(claimsOf(profile)) > 0 && slices.Contains(silent, kind.Group) {",
		New:     "if false && len(profile.PodTemplates)+len(claimsOf(profile)) > 0 && slices.Contains(silent, kind.Group) {",
		Package: surveys, Tests: []string{"TestMountedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "a pod template that its kind lacks mounts nothing",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "if of.anywhere {", New: "if false && of.anywhere {",
		Package: surveys, Tests: []string{"TestMountedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "a list that failed mounts nothing",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "return err == nil && all.mounts(facts.Name), err", New: "return err == nil && all.mounts(facts.Name), nil",
		Package: surveys, Tests: []string{"TestMountedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "a converted policy deletes what Kyverno manages",
		File: "cmd/kubectl-curfew/convert/skipped.go",
		Old:  "?\"app.kubernetes.io/managed-by\"].orValue(\"\") != \"kyverno\"`)", New: "?\"app.kubernetes.io/managed-by\"].orValue(\"\") != \"-\"`)",
		Package: converts, Tests: []string{"TestDefaultResourceFilters"},
	},
	{
		Invariant: "S6", Name: "a converted policy deletes kinds that Kyverno's resourceFilters keep",
		File: "cmd/kubectl-curfew/convert/skipped.go",
		Old:  "[ReplicaSet,*,*] ", New: "",
		Package: converts, Tests: []string{"TestDefaultResourceFilters"},
	},
}

// ofTenants let one tenant delay or exhaust others.
var ofTenants = []Mutant{
	{
		Invariant: "S10", Name: "each question about an account goes to the API server",
		File: "controller/permission/permission.go",
		Old:  "known := c.granted.Get(of); known {", New: "known := c.granted.Get(of); known && false {",
		Package: "controller/permission", Tests: []string{"TestCached"},
	},
	{
		Invariant: "S10", Name: "a namespace is asked about although all are granted",
		File: "controller/cleanup/survey/survey.go",
		Old:  "if !wide && len(names) > 1 {", New: "if !wide && len(names) < 1 {",
		Package: surveys, Tests: []string{"TestOneQuestionForAllNamespaces"},
	},
	{
		Invariant: "S10", Name: "an answer to an access review has any size",
		File: "controller/permission/permission.go",
		Old:  "r.Access.Create(paging.Bound(ctx, maxReview), ", New: "r.Access.Create(ctx, ",
		Package: cleans, Tests: []string{"TestPaddedRoles"},
	},
	{
		Invariant: "S10", Name: "made-up users cost the API server any number of access reviews",
		File: "webhook/shares.go",
		Old:  "asked.count >= limit {", New: "asked.count < 0 {",
		Package: admits, Tests: []string{"TestAccessReviewsAreLimited"},
	},
	{
		Invariant: "S10", Name: "one tenant uses up the access reviews of all",
		File: "webhook/shares.go",
		Old:  "min((left+1)/2, max(1, limit/parts))", New: "left",
		Package: admits, Tests: []string{"TestAccessReviewsAreShared"},
	},
	{
		Invariant: "S10", Name: "seven tenants use up the access reviews of all, second after second",
		File: "webhook/shares.go",
		Old:  "min((left+1)/2, max(1, limit/parts))", New: "(left + 1) / 2",
		Package: admits, Tests: []string{"TestManyTenantsLeaveAccessReviews"},
	},
	{
		Invariant: "S10", Name: "a caller who makes up users uses up the access reviews of the API server",
		File: "webhook/access.go",
		Old:  "digestOf(caller)", New: "digestOf(caller[:0])",
		Package: admits, Tests: []string{"TestCallersLeaveAccessReviews"},
	},
	{
		Invariant: "S6", Name: "with --only-namespaces, an account of a product that is not installed counts",
		File: "webhook/validate.go",
		Old:  "return served || err != nil", New: "return served || err == nil",
		Package: admits, Tests: []string{"TestOwnerOfAnUnservedKindInNamespaces"},
	},
	{
		Invariant: "S10", Name: "a posted review of a Binding shows a Pod whose UID the caller does not know",
		File: "webhook/validate.go",
		Old:  "uid != string(request.facts.UID) {", New: "uid == \"\" {",
		Package: admits, Tests: []string{"TestBindingsChangePods"},
	},
	{
		Invariant: "S10", Name: "expressions for the objects of a page have no limit together",
		File: "controller/cleanup/survey/passes.go",
		Old:  "limited = expression.Limited(ctx, pageCost,", New: "_ = expression.Limited(ctx, pageCost,",
		Package: surveys, Tests: []string{"TestExpressionsAreLimited"},
	},
	{
		Invariant: "S10", Name: "each live judgment lists what its lookups need",
		File: "controller/cleanup/survey/lookups.go",
		Old:  "if s.live == nil || ", New: "if true || ",
		Package: surveys, Tests: []string{"TestLiveLookupsAreShared"},
	},
	{
		Invariant: "S10", Name: "each policy that waits asks for discovery",
		File: "controller/cleanup/survey/memory.go",
		Old:  "m.while = servedFor", New: "m.while = 0",
		Package: surveys, Tests: []string{"TestDiscoveryIsShared"},
	},
	{
		Invariant: "S10", Name: "a namespace has all turns",
		File: "controller/cleanup/turns.go",
		Old:  "if t.held[namespace] < t.share && (", New: "if t.held[namespace] >= 0 && (",
		Package: cleans, Tests: []string{"TestShareAndAway", "TestNoNamespaceHoldsAllTurns"},
	},
	{
		Invariant: "S10", Name: "a turn lasts as long as a run",
		File: "controller/cleanup/turns.go",
		Old:  "|| t.clock.Since(u.since) >= slice {", New: "|| t.clock.Since(u.since) < 0 {",
		Package: cleans, Tests: []string{"TestSmallRunsStartSoon", "TestTurnsAreShared"},
	},
	{
		Invariant: "S10", Name: "any number of runs wait with a page in memory",
		File: "controller/cleanup/turns.go",
		Old:  "if t.inPage+pages > pagesHeld || ", New: "if ",
		Package: cleans, Tests: []string{"TestPagesHeld"},
	},
	{
		Invariant: "S10", Name: "a run that waits for its deletions keeps its turn",
		File: "controller/cleanup/turns.go",
		Old:  "\tu.end()\n\tif err := f(); err != nil {", New: "\tif err := f(); err != nil {",
		Package: cleans, Tests: []string{"TestShareAndAway"},
	},
	{
		Invariant: "S10", Name: "reviews of permissions keep a turn of runs",
		File: "controller/cleanup/gates.go",
		Old:  "\tcur.turn.end()\n", New: "",
		Package: cleans, Tests: []string{"TestRunsAreOnTime"},
	},
	{
		Invariant: "S10", Name: "a policy that is edited all the time has its status written without a pause",
		File: "controller/follow/status.go",
		Old:  "case conflicts > 1 && !loop.Pause(", New: "case conflicts < 0 && !loop.Pause(",
		Package: cleans, Tests: []string{"TestStatusConflictsBackOff"},
	},
	{
		Invariant: "S12", Name: "what was confirmed once counts to the end of the run",
		File: "controller/cleanup/gates.go",
		Old:  "r.confirmedAge() >= confirmedFor {", New: "r.confirmedAge() < 0 {",
		Package: cleans, Tests: []string{"TestSuspendedWhileTheWatchIsSilent"},
	},
	{
		Invariant: "S10", Name: "metrics have a series for each policy",
		File: "controller/cleanup/seen.go",
		Old:  "if !m.names {", New: "if false {",
		Package: cleans, Tests: []string{"TestStalledPoliciesOfANamespace"},
	},
	{
		Invariant: "S10", Name: "namespaces without cleanup policies are remembered",
		File: "controller/cleanup/seen.go",
		Old:  "if a.in[namespace] = list; len(list) == 0 {", New: "if a.in[namespace] = list; len(list) < 0 {",
		Package: cleans, Tests: []string{"TestAges"},
	},
}
