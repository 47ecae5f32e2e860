package main

const (
	matches = "policy/cleanup"
	cleans  = "controller/cleanup"
)

// ofCleanup break what cleanup policies match, how exact they count, and whose rights they use.
var ofCleanup = []Mutant{
	{
		Invariant: "S7", Name: "a cleanup run deletes before it has written down what",
		File: "controller/cleanup/batch.go",
		Old:  "if err := r.ledger.announce(ctx, page); err != nil {", New: "if err := ctx.Err(); err != nil {",
		Package: cleans, Tests: []string{"TestKilledAtEveryRequest"},
	},
	{
		Invariant: "S7", Name: "the UIDs are announced before their page is written",
		File: "controller/cleanup/ledger.go",
		Old:  "if err := l.store.writePage(ctx, page.name, &page.fields, true); err != nil {\n\t\treturn err\n\t}\n\tuids", New: "defer l.store.writePage(ctx, page.name, &page.fields, true)\n\tuids",
		Package: cleans, Tests: []string{"TestKilledAtEveryRequest"},
	},
	{
		Invariant: "S7", Name: "outcomes are counted before they are on the page",
		File: "controller/cleanup/ledger.go",
		Old:  "if err := l.store.writePage(ctx, page.name, &page.fields, false); err != nil {\n\t\treturn err\n\t}\n\treturn l.change", New: "defer l.store.writePage(ctx, page.name, &page.fields, false)\n\treturn l.change",
		Package: cleans, Tests: []string{"TestKilledAtEveryRequest"},
	},
	{
		Invariant: "S7", Name: "a resumed run forgets what was announced",
		File: "controller/cleanup/run.go",
		Old:  "if err := r.settle(ctx); err != nil {", New: "if err := ctx.Err(); err != nil {",
		Package: cleans, Tests: []string{"TestKilledAtEveryRequest"},
	},
	{
		Invariant: "S7", Name: "what is gone when a run is resumed is not counted",
		File: "controller/cleanup/ledger.go",
		Old:  "if item.Result == v1alpha1.ItemDeleted || item.Result == v1alpha1.ItemGone {\n\t\t\tout", New: "if item.Result == v1alpha1.ItemDeleted {\n\t\t\tout",
		Package: cleans, Tests: []string{"TestKilledAtEveryRequest"},
	},
	{
		Invariant: "S7", Name: "the numbers of a page are counted although they cannot be right",
		File: "controller/cleanup/ledger.go",
		Old:  "return len(page.Objects) == 0 && sum == page.Deleted && sum <= int64(objects)", New: "return sum <= sum",
		Package: cleans, Tests: []string{"TestLostReportsAreReported"},
	},
	{
		Invariant: "S7", Name: "an object that cannot be deleted has failed although it may be gone",
		File: "controller/cleanup/attempts.go",
		Old:  "\tb.checking = true\n", New: "\tfor _, item := range left {\n\t\titem.Result = v1alpha1.ItemFailed\n\t}\n\treturn nil\n",
		Package: cleans, Tests: []string{"TestOneObjectDoesNotWedgeARun"},
	},
	{
		Invariant: "S7", Name: "an object whose DELETE got no answer has failed",
		File: "controller/cleanup/outcome.go",
		Old:  "b.unanswered[uid] = true", New: "b.unanswered[uid] = false",
		Package: cleans, Tests: []string{"TestUnansweredDeletionIsNotExact"},
	},
	{
		Invariant: "S7", Name: "objects that a report page lost are lost again at each resume",
		File: "controller/cleanup/batch.go",
		Old:  "if s.UncountedDeletions[of].UIDs = left; len(left) == 0 {", New: "if len(left) == 0 {",
		Package: cleans, Tests: []string{"TestKilledInTrouble"},
	},
	{
		Invariant: "S6", Name: "consecutiveRuns counts on after a missed run",
		File: "policy/cleanup/matches.go",
		Old:  " || !p.Schedule.Next(left.ScheduledTime.Time).Equal(due) {", New: " || due.IsZero() {",
		Package: cleans, Tests: []string{"TestMatchesThatAreLost"},
	},
	{
		Invariant: "S6", Name: "consecutiveRuns counts on after the policy was changed",
		File: "policy/cleanup/matches.go",
		Old:  " || left.SpecHash != p.Hash ||", New: " ||",
		Package: cleans, Tests: []string{"TestMatchesThatAreLost"},
	},
	{
		Invariant: "S6", Name: "a forged report page counts as matches",
		File: "policy/cleanup/matches.go",
		Old:  "if SumMatches(text) != left.SHA256 || len", New: "if len",
		Package: matches, Tests: []string{"TestMatchesThatCannotBeUsed"},
	},
	{
		Invariant: "S6", Name: "an object that did not match in between is deleted",
		File: "policy/cleanup/matches.go",
		Old:  "\tmatched := m.confirmed\n", New: "\tmatched := m.confirmed\n\tfor key, runs := range m.before {\n\t\tmatched[key] = max(matched[key], runs)\n\t}\n",
		Package: cleans, Tests: []string{"TestConsecutiveRuns"},
	},
	{
		Invariant: "S6", Name: "a run overwrites the matches that it counts on from",
		File: "controller/cleanup/matches.go",
		Old:  "return pageName(r.policy.Name, \"matched-\"+run, number)", New: "return pageName(r.policy.Name, \"matched\", number)",
		Package: cleans, Tests: []string{"TestConsecutiveRunsKilled"},
	},
	{
		Invariant: "S6", Name: "an object that does not match on a live read keeps its count",
		File: "controller/cleanup/outcome.go",
		Old:  "\tb.run.survey.Matches.Forget(uid)\n", New: "",
		Package: cleans, Tests: []string{"TestLiveReadStartsAgain"},
	},
	{
		Invariant: "S10", Name: "policies without an account delete as the controller",
		File: "controller/cleanup/account.go",
		Old:  "\t\tname = a.own\n", New: "\t\tname.Name = \"curfew-controller\"\n",
		Package: cleans, Tests: []string{"TestAccountsImpersonate"},
	},
	{
		Invariant: "S10", Name: "a run that may do nothing is complete",
		File: "controller/cleanup/run.go",
		Old:  "(r.forbidden || r.survey.Nowhere())", New: "r.forbidden",
		Package: cleans, Tests: []string{"TestForbiddenFromTheBeginning"},
	},
	{
		Invariant: "S10", Name: "a tenant's policy reads what its author may not",
		File: "webhook/cleanup.go",
		Old:  "{\"get\", \"list\", \"delete\"}", New: "{\"delete\"}",
		Package: "webhook", Tests: []string{"TestCleanupAuthorMayNotRead"},
	},
	{
		Invariant: "S10", Name: "a preview acts as an account that the user may not impersonate",
		File: "cmd/kubectl-curfew/world/survey.go",
		Old:  "if err != nil || missing != \"\" {\n\t\treturn own", New: "if err != nil || missing == \"-\" {\n\t\treturn own",
		Package: "cmd/kubectl-curfew", Tests: []string{"TestPreviewActsAsTheAccount"},
	},
	{
		Invariant: "S6", Name: "a survey deletes above its limit",
		File: "controller/cleanup/survey/passes.go",
		Old:  "decision.Verdict == cleanup.Delete && s.Left == 0 {", New: "false {",
		Package: cleans, Tests: []string{"TestTruncatedRun"},
	},
	{
		Invariant: "S6", Name: "a survey ignores keepNewest",
		File: "controller/cleanup/survey/passes.go",
		Old:  "s.Newest.Keeps(decision.Group, decision.Time, uid) {", New: "false {",
		Package: cleans, Tests: []string{"TestResumedRunJudgesAgain"},
	},
	{
		Invariant: "S10", Name: "a policy reads namespaces that its account may not get",
		File: "controller/cleanup/survey/places.go",
		Old:  "if !s.policy.Expressions.ReadsNamespace {", New: "if true {",
		Package: cleans, Tests: []string{"TestNamespaceObjectTakesAPermission"},
	},
	{
		Invariant: "S10", Name: "a survey lists what its account may not delete",
		File: "controller/cleanup/survey/places.go",
		Old:  "if missing != \"\" {\n\t\t\tlacks = append", New: "if missing == \"-\" {\n\t\t\tlacks = append",
		Package: cleans, Tests: []string{"TestForbiddenFromTheBeginning"},
	},
	{
		Invariant: "S10", Name: "a run goes on without the permission that it lost",
		File: "controller/cleanup/run.go",
		Old:  "(r.forbidden || r.survey.Nowhere())", New: "r.survey.Nowhere()",
		Package: cleans, Tests: []string{"TestOnePermissionRevokedInMidRun"},
	},
	{
		Invariant: "S10", Name: "a right to single objects counts for all",
		File: "controller/permission/grants.go",
		Old:  "return len(rule.ResourceNames) == 0 && has(rule.Verbs, need.Verb)", New: "return has(rule.Verbs, need.Verb)",
		Package: "controller/permission", Tests: []string{"TestCached"},
	},
	{
		Invariant: "S6", Name: "a run goes on after its policy was suspended",
		File: "controller/cleanup/account.go",
		Old:  "if !batch.run.c.unchanged(batch.run.policy) {", New: "if false {",
		Package: cleans, Tests: []string{"TestSuspendedInMidRun"},
	},
	{
		Invariant: "S6", Name: "a resumed run deletes what an earlier one had announced",
		File: "controller/cleanup/outcome.go",
		Old:  "case b.run.settling:", New: "case false:",
		Package: cleans, Tests: []string{"TestResumedRunJudgesAgain"},
	},
	{
		Invariant: "S6", Name: "an exclusion by a wildcard leaves out what a cluster depends on",
		File: "policy/cleanup/policy.go",
		Old:  "out.exclude.excludes = true", New: "out.exclude.excludes = false",
		Package: matches, Tests: []string{"TestWhatMatches"},
	},
	{
		Invariant: "S6", Name: "an object on which a condition fails matches",
		File: "policy/cleanup/judge.go",
		Old:  "case err != nil:\n\t\treturn Decision{Verdict: Skip, Reason: reason, Message: err.Error()}\n\tcase !matched:", New: "case err == nil && !matched && reason != \"-\":",
		Package: matches, Tests: []string{"TestWhatMatches"},
	},
	{
		Invariant: "S6", Name: "exclude excludes nothing",
		File: "policy/cleanup/judge.go",
		Old:  "|| p.excludes(o) {", New: "|| false && p.excludes(o) {",
		Package: matches, Tests: []string{"TestWhatMatches"},
	},
	{
		Invariant: "S5", Name: "a cleanup policy deletes children of a controller",
		File: "policy/cleanup/judge.go",
		Old:  "facts.Owner != nil && !p.Spec.IncludeOwned", New: "facts.Owner != nil && false",
		Package: matches, Tests: []string{"TestWhatIsKept"},
	},
	{
		Invariant: "S6", Name: "a wildcard matches what a cluster depends on",
		File: "policy/cleanup/targets.go",
		Old:  "return matches && (anything || !policy.EssentialKind(schema.GroupKind{Group: resource.Group, Kind: kind}))", New: "return matches",
		Package: matches, Tests: []string{"TestTargets"},
	},
	{
		Invariant: "S6", Name: "keepNewest keeps the oldest",
		File: "policy/cleanup/newest.go",
		Old:  "return o[i].compare(o[j]) < 0", New: "return o[i].compare(o[j]) > 0",
		Package: matches, Tests: []string{"TestNewestAgainstSorting"},
	},
	{
		Invariant: "S6", Name: "a run above its limit deletes all the same",
		File: "policy/cleanup/limits.go",
		Old:  "if why == \"\" || p.Spec.OnExceed == v1alpha1.ExceedTruncates {", New: "if why == \"\" || p.Spec.OnExceed != \"-\" && p.Spec.OnExceed != v1alpha1.ExceedTruncates+\"-\" {",
		Package: matches, Tests: []string{"TestAllowance"},
	},
	{
		Invariant: "S10", Name: "a CleanupPolicy runs without a service account",
		File: "policy/cleanup/policy.go",
		Old:  "if account.Name == \"\" { // Without", New: "if account.Name == \"-\" { // Without",
		Package: matches, Tests: []string{"TestCompileErrors"},
	},
	{
		Invariant: "S10", Name: "a CleanupPolicy reaches other namespaces",
		File: "policy/cleanup/judge.go",
		Old:  "if p.Namespace != \"\" && o.Facts.Namespace != p.Namespace ||", New: "if p.Namespace == \"-\" ||",
		Package: matches, Tests: []string{"TestCompileErrors"},
	},
	{
		Invariant: "S10", Name: "a CleanupPolicy lists cluster-scoped kinds",
		File: "policy/cleanup/targets.go",
		Old:  "|| p.Namespace != \"\" && !one.Namespaced {", New: "{",
		Package: matches, Tests: []string{"TestTargets"},
	},
	{
		Invariant: "S10", Name: "a run lists and deletes with Curfew's own rights",
		File: "controller/cleanup/account.go",
		Old:  "config.Impersonate = rest.ImpersonationConfig{", New: "_ = rest.ImpersonationConfig{",
		Package: cleans, Tests: []string{"TestAccountsImpersonate"},
	},
	{
		Invariant: "S10", Name: "a tenant's policy deletes what its author may not",
		File: "policy/rules/cleanup.go",
		Old:  "if where != \"\" || r.Options.RequireDelete {", New: "if r.Options.RequireDelete {",
		Package: "webhook", Tests: []string{"TestGolden"},
	},
}
