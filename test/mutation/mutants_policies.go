package main

const (
	backfills = "controller/backfill"
	follows   = "controller/follow"
)

// ofPolicies break how far a LifecyclePolicy reaches: default TTL labels, mode DryRun, propagation.
var ofPolicies = []Mutant{
	{
		Invariant: "S6", Name: "a default label reaches older objects without backfill",
		File: "policy/resolution/default_label.go",
		Old:  "if !of.Backfill && (of.Since.IsZero() || !facts.Created.After(of.Since)) {", New: "if false {",
		Package: decides, Tests: []string{"TestMissingLabel"},
	},
	{
		Invariant: "S6", Name: "without backfill a label is given that expires soon",
		File: "policy/resolution/default_label.go",
		Old:  "err == nil && !of.Backfill && label", New: "err == nil && false && label",
		Package: decides, Tests: []string{"TestMissingLabel"},
	},
	{
		Invariant: "S5", Name: "what another controller manages is given a default label",
		File: "policy/profile.go",
		Old:  "Unknown: true, ManagedBy: JobProfile.ManagedBy}", New: "Unknown: true}",
		Package: decides, Tests: []string{"TestDefaultLabelOfManagedObjects"},
	},
	{
		Invariant: "S5", Name: "the controller does not look who manages an existing object",
		File: "controller/backfill/labels.go",
		Old:  "!out.profile.Unknown || mayBeManaged(place, snapshot, out.profile)", New: "!out.profile.Unknown",
		Package: backfills, Tests: []string{"TestManagedObjects"},
	},
	{
		Invariant: "S6", Name: "existing objects are labelled without a rate",
		File: "controller/backfill/object.go",
		Old:  "for wait := l.rate.Wait(l.mono()); wait > 0; wait = l.rate.Wait(l.mono()) {", New: "for wait := time.Duration(0); wait > 0; {",
		Package: backfills, Tests: []string{"TestRate"},
	},
	{
		Invariant: "S1", Name: "a label is given to a state that was not judged",
		File: "controller/backfill/object.go",
		Old:  ", \"resourceVersion\": facts.ResourceVersion}", New: "}",
		Package: backfills, Tests: []string{"TestWhatIsLabelled", "TestObjectThatChanges"},
	},
	{
		Invariant: "S6", Name: "labels that existing objects were given are carried out without a rate",
		File: "policy/judging/judge.go",
		Old:  "Source: source, Backfill: backfill, DryRun", New: "Source: source, Backfill: backfill && false, DryRun",
		Package: feeds, Tests: []string{"TestBackfilledLabelsAreDeletedAtTheirRate"},
	},
	{
		Invariant: "S6", Name: "a stamp counts beside any label",
		File: "policy/facts_origin.go",
		Old:  "source.Level != lifetime.LevelPolicy || label != f.Labels[wellknown.LabelTTL] {", New: "source.Level != lifetime.LevelPolicy || label == \"\" {",
		Package: decides, Tests: []string{"TestSourceOfALabel"},
	},
	{
		Invariant: "S6", Name: "a policy in dry-run gives a default label",
		File: "policy/resolution/default_label.go",
		Old:  "return p.Label != nil && p.Mode != ModeDryRun", New: "return p.Label != nil",
		Package: decides, Tests: []string{"TestMissingLabel", "TestPolicyInDryRunAtAdmission"},
	},
	{
		Invariant: "S6", Name: "a policy in dry-run decides",
		File: "policy/resolution/resolve.go",
		Old:  "next.skipped = \"its mode is DryRun\"", New: "next.dryRun = false",
		Package: decides, Tests: []string{"TestPolicyInDryRun", "TestPolicyInDryRunAtAdmission", "TestDeadlineOfPolicyInDryRun"},
	},
	{
		Invariant: "S6", Name: "what a policy in dry-run makes due is deleted",
		File: "policy/resolution/value.go",
		Old:  "value.DryRun = true, true, !young, w.winner.dryRun", New: "value.DryRun = true, true, !young, false",
		Package: decides, Tests: []string{"TestPolicyInDryRun", "TestDeadlineOfPolicyInDryRun"},
	},
	{
		Invariant: "S6", Name: "what a policy in dry-run has stamped is deleted",
		File: "policy/resolution/value.go",
		Old:  "value.Source, value.DryRun = source, w.held(source)", New: "value.Source = source",
		Package: decides, Tests: []string{"TestDryRunHoldsWhatIsStamped", "TestDryRunHoldsStampedDeadlines"},
	},
	{
		Invariant: "S6", Name: "what a policy in dry-run has labelled is deleted",
		File: "policy/judging/judge.go",
		Old:  "scope.Mode() == resolution.ModeDryRun || scope.HoldsLabel(source)", New: "scope.Mode() == resolution.ModeDryRun",
		Package: decides, Tests: []string{"TestDryRunHoldsStampedLabels"},
	},
	{
		Invariant: "S3", Name: "a forged stamp of a policy in dry-run keeps an object",
		File: "policy/resolution/value.go",
		Old:  "return v.Set && v.Source == source && setting.Err == nil && v.TTL == setting.TTL", New: "return true",
		Package: decides, Tests: []string{"TestDryRunHoldsWhatIsStamped", "TestDryRunHoldsStampedDeadlines"},
	},
	{
		Invariant: "S6", Name: "a policy in dry-run holds nothing if it matches by what it fills in",
		File: "policy/platform/context.go",
		Old:  "\tif filled {", New: "\tif false {",
		Package: "policy/platform", Tests: []string{"TestHeldByDryRun"},
	},
	{
		Invariant: "S6", Name: "a protected namespace gets defaults",
		File: "policy/resolution/resolve.go",
		Old:  "case w.scope.Protected:", New: "case w.scope.Protected && false:",
		Package: decides, Tests: []string{"TestNoDefaultInAProtectedNamespace"},
	},
	{
		Invariant: "S6", Name: "a policy in dry-run decides what becomes of dependents",
		File: "policy/expression/policy.go",
		Old:  "if out.Mode != resolution.ModeDryRun {", New: "if true {",
		Package: "policy/expression", Tests: []string{"TestLabelBounds"},
	},
	{
		Invariant: "S6", Name: "an object is deleted although it is not known what becomes of its dependents",
		File: "policy/verdict.go",
		Old:  "\tif err != nil {\n\t\treturn Verdict{Action: Keep, Reason: \"what becomes of its dependents is not known\"", New: "\tif false {\n\t\treturn Verdict{Action: Keep, Reason: \"what becomes of its dependents is not known\"",
		Package: decides, Tests: []string{"TestPropagationOfPolicies"},
	},
	{
		Invariant: "S6", Name: "a profile outranks a policy about dependents",
		File: "controller/action/deletion/deletion.go",
		Old:  "cmp.Or(due.Propagation, due.Type.Propagation,", New: "cmp.Or(due.Type.Propagation, due.Propagation,",
		Package: feeds, Tests: []string{"TestPropagation"},
	},
	{
		Invariant: "S6", Name: "a profile outranks a policy about the dependents of a labelled object",
		File: "controller/feed/agree.go",
		Old:  "cmp.Or(verdict.Propagation, said,", New: "cmp.Or(said, verdict.Propagation,",
		Package: feeds, Tests: []string{"TestPropagationIsReadLiveForLabels"},
	},
	{
		Invariant: "S6", Name: "any 404 for a list empties the local copy",
		File: "controller/follow/mirror.go",
		Old:  "return err == nil && unserved", New: "return true || err == nil && unserved",
		Package: follows, Tests: []string{"TestNotFoundIsNoEmptyList", "TestLiveReadsWithoutCRDs"},
	},
	{
		Invariant: "S3", Name: "a profile that is edited pauses deletions",
		File: "controller/engine/finish.go",
		Old:  ", errors.Is(res.Err, ErrRulesChanged):", New: ", res.Err == nil && errors.Is(res.Err, ErrRulesChanged):",
		Package: engine, Tests: []string{"TestRulesAreReplaced"},
	},
	{
		Invariant: "S3", Name: "a stamp that fails delays all others",
		File: "controller/loop/queue.go",
		Old:  "\t\t\tq.Retry(name, again)\n", New: "\t\t\tq.Retry(name, again)\n\t\t\tPause(ctx, q.clock, q.most)\n",
		Package: follows, Tests: []string{"TestStampThatFailsDelaysNoOther"},
	},
	{
		Invariant: "S5", Name: "a TTL that Tekton copied deletes a TaskRun of a live pipeline",
		File: "policy/judging/judge.go",
		Old:  "case value.Source.Level == lifetime.LevelObject && facts.CopiedFrom() != \"\":", New: "case false:",
		Package: decides, Tests: []string{"TestCopiedFromAPipelineRun"},
	},
	{
		Invariant: "S6", Name: "a refresh that cannot be read does not count",
		File: "policy/judging/judge.go",
		Old:  "case label.At.IsZero() && clockErr != nil:", New: "case false:",
		Package: decides, Tests: []string{"TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "a refresh from before the creation counts",
		File: "policy/facts.go",
		Old:  "if at.Before(f.Created) {", New: "if false {",
		Package: decides, Tests: []string{"TestRefreshNeverHastens", "TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "a bound that is set later deletes a refreshed object",
		File: "policy/resolution/bounds.go",
		Old:  "if expiry.After(limit) && !limit.Before(from) {", New: "if expiry.After(limit) {",
		Package: decides, Tests: []string{"TestRefreshNeverHastens", "TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "keepNewest from All deletes what the conditions do not match",
		File: "policy/cleanup/judge.go",
		Old:  "return Decision{Group: ranked.Group, Time: ranked.Time}", New: "return ranked",
		Package: cleans, Tests: []string{"TestKeepNewestOfAll"},
	},
	{
		Invariant: "S6", Name: "a pod template protects what a policy denies",
		File: "policy/rules/protection.go",
		Old:  "range s.Profile.PodTemplates {", New: "range s.Profile.PodTemplates[:0] {",
		Package: "./policy/rules", Tests: []string{"TestProtectionInTemplates"},
	},
}
