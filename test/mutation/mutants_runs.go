package main

// ofRuns break what bounds cleanup runs, and what keeps forged statuses and reports from them.
var ofRuns = []Mutant{
	{
		Invariant: "S7", Name: "a page whose objects a user changed is counted",
		File: "controller/cleanup/resume.go",
		Old:  " || uncounted.SHA256 != sumItems(fields.Objects) {", New: " {",
		Package: cleans, Tests: []string{"TestLostReportsAreReported", "TestForgedPages"},
	},
	{
		Invariant: "S7", Name: "an old page that a forged status announces is counted again",
		File: "controller/cleanup/resume.go",
		Old:  "fields.Run != r.info.ID || ", New: "",
		Package: cleans, Tests: []string{"TestForgedStatusKeepsPages", "TestForgedAnnouncements"},
	},
	{
		Invariant: "S7", Name: "a run that a forged status starts again overwrites its pages",
		File: "controller/cleanup/run.go",
		Old:  "deleted, err := r.recount(ctx)\n", New: "deleted, err := int64(0), error(nil)\n\tif r.resumed || r.policy.Limited() {\n\t\tdeleted, err = r.recount(ctx)\n\t}\n",
		Package: cleans, Tests: []string{"TestForgedStatusKeepsPages"},
	},
	{
		Invariant: "S6", Name: "a page that was planted before the run counts towards its limits",
		File: "controller/cleanup/pages.go",
		Old:  "page.CreationTimestamp.Time.Before(due)", New: "false",
		Package: cleans, Tests: []string{"TestPagesCount"},
	},
	{
		Invariant: "S7", Name: "objects of a page that a user changed are not lost",
		File: "controller/cleanup/resume.go",
		Old:  "plus(s.LastRun.Lost, int64(len(page.UIDs)))", New: "plus(s.LastRun.Lost, 0)",
		Package: cleans, Tests: []string{"TestForgedPages"},
	},
	{
		Invariant: "S10", Name: "live judgments take no turns",
		File: "controller/cleanup/attempts.go",
		Old:  "b.budget, place.judging)", New: "b.budget, func(_ context.Context, f func() error) error { return f() })",
		Package: cleans, Tests: []string{"TestLiveJudgementsAreLimited"},
	},
	{
		Invariant: "S10", Name: "live judgments keep their place while they read",
		File: "controller/cleanup/attempts.go",
		Old:  "\tu.end()\n\tif err := cmp.Or(f(), ctx.Err())", New: "\tif err := cmp.Or(f(), ctx.Err())",
		Package: cleans, Tests: []string{"TestLookupsHoldNoPlace"},
	},
	{
		Invariant: "S10", Name: "each live judgment may cost as much as a page",
		File: "controller/cleanup/attempts.go",
		Old:  "object, source, b.budget,", New: "object, source, survey.NewBudget(),",
		Package: cleans, Tests: []string{"TestLiveJudgementsAreLimited"},
	},
	{
		Invariant: "S10", Name: "live judgments have no budget",
		File: "controller/cleanup/survey/passes.go",
		Old:  "s.judge(budget.In(ctx), at,", New: "s.judge(ctx, at,",
		Package: surveys, Tests: []string{"TestLiveExpressionsAreLimited"},
	},
	{
		Invariant: "S10", Name: "a forbidden run asks for every permission every half a minute",
		File: "controller/cleanup/resume.go",
		Old:  "r.newSurvey(maxLacks)", New: "r.newSurvey(0)",
		Package: cleans, Tests: []string{"TestForbiddenRunAsksLittle"},
	},
	{
		Invariant: "S10", Name: "all approvals are listed before each batch",
		File: "controller/cleanup/gates.go",
		Old:  "if r.approval != \"\" {", New: "if r.approval != \"\" && ctx.Err() != nil {",
		Package: cleans, Tests: []string{"TestApprovalsAreListedOnce"},
	},
	{
		Invariant: "S10", Name: "admission counts no cleanup policies",
		File: "webhook/policies.go",
		Old:  "return err == nil && n >= l.most, err", New: "return err == nil && n > l.most, err",
		Package: "webhook", Tests: []string{"TestCleanupPoliciesAreCounted"},
	},
	{
		Invariant: "S7", Name: "the quota of reports costs a run in progress its pages",
		File: "controller/cleanup/pages.go",
		Old:  "|| of.needs(page.run, page.matched)", New: "|| of.UID == \"\"",
		Package: cleans, Tests: []string{"TestReportQuota"},
	},
	{
		Invariant: "S7", Name: "the quota costs a run its pages if it began while they were listed",
		File: "controller/cleanup/pages.go",
		Old:  "if policies, err = s.neighbours(ctx); err != nil {", New: "if err != nil {",
		Package: cleans, Tests: []string{"TestReportQuota"},
	},
	{
		Invariant: "S9", Name: "reports have no quota",
		File: "controller/cleanup/pages.go",
		Old:  "s.reportBytes <= 0 ||", New: "s.reportBytes >= 0 ||",
		Package: cleans, Tests: []string{"TestReportQuota"},
	},
	{
		Invariant: "S10", Name: "an interrupted run keeps its turn while it reads what it has deleted",
		File: "controller/cleanup/resume.go",
		Old:  "return r.cur.turn.away(ctx, func() error { return r.settleAll(ctx) })", New: "return r.settleAll(ctx)",
		Package: cleans, Tests: []string{"TestSettlingTakesNoTurn"},
	},
	{
		Invariant: "S6", Name: "a lookup forgets workloads that cannot be deleted",
		File: "controller/discovery/served/served.go",
		Old:  "known, ok := at[one.GroupResource]\n", New: "known, ok := at[one.GroupResource]\n\t\tif one.Undeletable {\n\t\t\treturn\n\t\t}\n",
		Package: "controller/discovery/served", Tests: []string{"TestUndeletable"},
	},
}
