package main

import "slices"

// Mutant is one way to break a safety invariant of the contract (DESIGN, section 8;
// docs/design.md).
type Mutant struct {
	Invariant string
	// Name says what the mutant breaks, for people.
	Name string
	// File is edited: Old, which has to be there exactly once, becomes New.
	File, Old, New string
	// Package has the Tests. At least one must fail.
	Package string
	Tests   []string
}

const (
	engine  = "controller/engine"
	feeds   = "controller/feed"
	deletes = "controller/action/deletion"
	decides = "policy"
	admits  = "webhook"
)

var mutants = append([]Mutant{
	{
		Invariant: "S1", Name: "the resourceVersion is no precondition any more",
		File: "controller/action/deletion/deletion.go",
		Old:  "if uidOnly {\n\t\tdue.ResourceVersion = \"\"", New: "if true {\n\t\tdue.ResourceVersion = \"\"",
		Package: engine, Tests: []string{"TestSafety", "TestOneDeleteAtExpiry"},
	},
	{
		Invariant: "S1", Name: "the resourceVersion is not sent",
		File: "controller/action/deletion/deletion.go",
		Old:  "if r.ResourceVersion != \"\" {\n\t\to.Preconditions", New: "if r.ResourceVersion == \"\" {\n\t\to.Preconditions",
		Package: deletes, Tests: []string{"TestClientSends"},
	},
	{
		Invariant: "S1", Name: "after a conflict the DELETE is sent again by UID, unjudged",
		File: "controller/engine/attempt.go",
		Old:  "live, due.conflict, res.Err = true, res.VersionConflict, nil", New: "due.UIDOnly, res.Err = true, nil",
		Package: engine, Tests: []string{"TestSafety", "TestConflictIsJudgedAtOnce"},
	},
	{
		Invariant: "S1", Name: "an object that a live read finds not due is deleted all the same",
		File: "controller/engine/attempt.go",
		Old:  "case !ok || index.Nanos(judged.Expiry) > now:", New: "case !ok:",
		Package: engine, Tests: []string{"TestSafety", "TestConflictIsJudgedAtOnce"},
	},
	{
		Invariant: "S1", Name: "a default that was resolved live is not read again before the deletion",
		File: "controller/engine/attempt.go",
		Old:  "live := j.object.Live || j.kind.UIDOnly", New: "live := j.kind.UIDOnly",
		Package: engine, Tests: []string{"TestLiveDefaultIsReadAgain"},
	},
	{
		Invariant: "S1", Name: "a live read overrules a feed that says meanwhile that it is due later",
		File: "controller/engine/attempt.go",
		Old:  "return en.Expiry > now && en.Expiry != index.Nanos(sent.Expiry) || en.Flags", New: "return en.Flags",
		Package: engine, Tests: []string{"TestPostponedDuringTheFreshLook"},
	},
	{
		Invariant: "S1", Name: "objects are taken up a second early",
		File: "controller/engine/dispatch.go",
		Old:  "ok && x.At(slot).Wake <= now &&", New: "ok && x.At(slot).Wake <= now+int64(time.Second) &&",
		Package: engine, Tests: []string{"TestSafety", "TestOneDeleteAtExpiry", "TestRunIsPunctual"},
	},
	{
		Invariant: "S1", Name: "an object is deleted by a clock that is ahead",
		File: "controller/engine/clock.go",
		Old:  "return r.wall - int64(max(0, proven)), g.held == \"\"", New: "return r.wall, g.held == \"\"",
		Package: engine, Tests: []string{"TestSafety", "TestGuard"},
	},
	{
		Invariant: "S1", Name: "deletions go on while the clock is off beyond the bound",
		File: "controller/engine/clock.go",
		Old:  "g.hold(proven > maxSkew || proven < -maxSkew, ReasonClockSkew,", New: "g.hold(false, ReasonClockSkew,",
		Package: engine, Tests: []string{"TestGuard"},
	},
	{
		Invariant: "S1", Name: "a jump of the clock is not noticed",
		File: "controller/engine/clock.go",
		Old:  "if d := offset - g.offset; d > servertime.JumpBound || d < -servertime.JumpBound {", New: "if d := offset - g.offset; d > servertime.JumpBound && d < -servertime.JumpBound {",
		Package: engine, Tests: []string{"TestSafety", "TestGuard", "TestGuardAlone"},
	},
	{
		Invariant: "S1", Name: "what surrounds an object is taken from the cache right before the deletion",
		File: "controller/feed/judge.go",
		Old:  "around, err := f.context(ctx, facts, object, true)", New: "around, err := f.context(ctx, facts, object, false)",
		Package: feeds, Tests: []string{"TestPolicyWithdrawnBehindTheCache", "TestRuntimeIsReadLiveBeforeADeletion"},
	},
	{
		Invariant: "S1", Name: "policies are taken from the cache right before the deletion",
		File: "controller/follow/platform.go",
		Old:  "policies, read.policies, errPolicies = p.Policies.Live(ctx)", New: "policies, read.policies, errPolicies = p.store.Snapshot().Policies, &listing{}, nil",
		Package: "controller/follow", Tests: []string{"TestLiveReadsPastTheCache"},
	},
	{
		Invariant: "S1", Name: "a namespace is taken from the cache right before the deletion",
		File: "controller/follow/source.go",
		Old:  "return l.Namespaces.LiveNamespace(ctx, name)", New: "return l.Namespaces.Namespace(ctx, name)",
		Package: "controller/follow", Tests: []string{"TestLiveReadsPastTheCache"},
	},
	{
		Invariant: "S1", Name: "a runtime is taken from the cache right before the deletion",
		File: "controller/follow/source.go",
		Old:  "return l.Platform.Runtimes.LiveRuntime(ctx, reference)", New: "return l.Platform.Runtimes.Runtime(ctx, reference)",
		Package: "controller/follow", Tests: []string{"TestLiveReadsPastTheCache"},
	},
	{
		Invariant: "S2", Name: "the UID is not sent",
		File: "controller/action/deletion/deletion.go",
		Old:  "Preconditions: &metav1.Preconditions{UID: &r.UID}}", New: "Preconditions: &metav1.Preconditions{}}",
		Package: deletes, Tests: []string{"TestClientSends"},
	},
	{
		Invariant: "S2", Name: "the UID is no precondition any more",
		File: "controller/action/deletion/deletion.go",
		Old:  "due.Propagation = propagation(&due)\n", New: "due.Propagation, due.UID = propagation(&due), \"\"\n",
		Package: engine, Tests: []string{"TestSafety"},
	},
	{
		Invariant: "S2", Name: "a finish time is written down for whatever bears the name now",
		File: "controller/feed/finish.go",
		Old:  "\t\t\"uid\":             job.uid,\n", New: "",
		Package: feeds, Tests: []string{"TestFinishTimeIsWrittenDown"},
	},
	{
		Invariant: "S3", Name: "a DELETE that fails is not tried again",
		File: "controller/engine/finish.go",
		Old:  "e.retryAt(slot, now, now+int64(wait))", New: "e.bury(slot, now)\n\t_ = wait",
		Package: engine, Tests: []string{"TestSafety", "TestRetriesForEver"},
	},
	{
		Invariant: "S3", Name: "a DELETE without an answer counts as done",
		File: "controller/engine/finish.go",
		Old:  "gone := res.deleting.IsZero() && (", New: "gone := res.lost || res.deleting.IsZero() && (",
		Package: engine, Tests: []string{"TestSafety", "TestUnanswered"},
	},
	{
		Invariant: "S3", Name: "a list from a cache that lags sweeps out what the watch has told since",
		File: "controller/engine/engine.go",
		Old:  "!en.NewerThan(limit))", New: "!en.NewerThan(limit) || true)",
		Package: engine, Tests: []string{"TestSafety", "TestRelistSweeps"},
	},
	{
		Invariant: "S3", Name: "what the API server accepted and lost is never believed to exist again",
		File: "controller/engine/entries.go",
		Old:  "index.Tombstone, now+int64(keepOut))", New: "index.Tombstone, now+100_000*int64(keepOut))",
		Package: engine, Tests: []string{"TestTombstone"},
	},
	{
		Invariant: "S3", Name: "nothing is listed again after a watch lost changes",
		File: "controller/feed/watch.go",
		Old:  "case <-relist:\n\t\t\treturn at, errListAgain", New: "case <-relist:\n\t\t\tcontinue",
		Package: feeds, Tests: []string{"TestPeriodicRelist"},
	},
	{
		Invariant: "S3", Name: "a watch that is too old is given up instead of listing again",
		File: "controller/feed/watch.go",
		Old:  "if refused(err) {", New: "if false && refused(err) {",
		Package: feeds, Tests: []string{"TestWatchTooOldListsAgain"},
	},
	{
		Invariant: "S3", Name: "one trigger cancels what another tracks",
		File: "controller/engine/entries.go",
		Old:  "return e.index.Find(uid, e.kinds[k].trigger.id)", New: "return e.index.Find(uid, 0)",
		Package: engine, Tests: []string{"TestSafety", "TestTriggersDoNotCancelEachOther"},
	},
	{
		Invariant: "S3", Name: "of the triggers that share a watch, only one gets a state",
		File: "controller/feed/judge.go",
		Old:  "for i, one := range f.triggers {\n\t\tto :=", New: "for i, one := range f.triggers[:1] {\n\t\tto :=",
		Package: feeds, Tests: []string{"TestOneWatchForTTLsAndDeadlines", "TestTriggersOfOneFeedAreApart"},
	},
	{
		Invariant: "S3", Name: "the finish time that only Curfew saw is not written down",
		File: "controller/feed/finish.go",
		Old:  "if r.feed.kind.Patch == nil {", New: "if r.feed.kind.Patch != nil {",
		Package: feeds, Tests: []string{"TestFinishTimeIsWrittenDown"},
	},
	{
		Invariant: "S3", Name: "a live read hides a change that the watch reports meanwhile",
		File: "controller/engine/attempt.go",
		Old:  "en.Compare(res.sent.ResourceVersion) != index.Same &&", New: "false &&",
		Package: engine, Tests: []string{"TestWatchOvertakesTheFreshLook"},
	},
	{
		Invariant: "S3", Name: "a live read that says keep hides that it is due again",
		File: "controller/engine/finish.go",
		Old:  "case res.reported == Kept && !moved && en.Flags&index.FlagUpserted == 0:", New: "case res.reported == Kept && !moved:",
		Package: engine, Tests: []string{"TestDueAgainDuringTheFreshLook"},
	},
	{
		Invariant: "S3", Name: "a kind that is always answered 429 keeps the others waiting",
		File: "controller/engine/finish.go",
		Old:  "\tcase e.singled(q):\n\t\tq.pausedTo = max(q.pausedTo, to)\n", New: "",
		Package: engine, Tests: []string{"TestThrottledKind"},
	},
	{
		Invariant: "S3", Name: "a kind whose DELETEs hang keeps the others waiting",
		File: "controller/engine/room.go",
		Old:  "if r.mono-of.started < e.patience() {", New: "if r.mono-of.started < 1000*slowAfter {",
		Package: engine, Tests: []string{"TestHangingKind"},
	},
	{
		Invariant: "S4", Name: "SuccessCriteriaMet counts as the end of a Job",
		File: "policy/facts_object.go",
		Old:  "case batchv1.JobComplete:", New: "case batchv1.JobComplete, batchv1.JobSuccessCriteriaMet:",
		Package: decides, Tests: []string{"TestJudge"},
	},
	{
		Invariant: "S4", Name: "FailureTarget counts as the end of a Job",
		File: "policy/facts_object.go",
		Old:  "case batchv1.JobFailed:", New: "case batchv1.JobFailed, batchv1.JobFailureTarget:",
		Package: decides, Tests: []string{"TestJudge"},
	},
	{
		Invariant: "S4", Name: "a condition counts whatever its status",
		File: "policy/facts_object.go",
		Old:  "if condition.Status != corev1.ConditionTrue {", New: "if condition.Status == corev1.ConditionUnknown {",
		Package: decides, Tests: []string{"TestJudge"},
	},
	{
		Invariant: "S4", Name: "what has not finished is judged by its TTL",
		File: "policy/judging/judge.go",
		Old:  "case !facts.Finished:\n\t\treturn policy.Kept(\"is not finished\") // S4\n", New: "",
		Package: decides, Tests: []string{"TestJudge"},
	},
	{
		Invariant: "S5", Name: "a child of another controller is given a default",
		File: "policy/resolution/defaults.go",
		Old:  "if facts.Owner != nil && !facts.IsCronJobsJob() && !facts.IsJobsPod() {", New: "if false {",
		Package: decides, Tests: []string{"TestNoDefault"},
	},
	{
		Invariant: "S5", Name: "what another cluster's manager answers for is given a default",
		File: "policy/resolution/defaults.go",
		Old:  "if manager := facts.ForeignManager(); manager != \"\" {\n\t\treturn \"is", New: "if manager := facts.ForeignManager(); manager == \"?\" {\n\t\treturn \"is",
		Package: decides, Tests: []string{"TestNoDefault"},
	},
	{
		Invariant: "S5", Name: "a Pod goes before its Job has accounted for it",
		File: "policy/judging/judge.go",
		Old:  "case facts.Uncounted():\n\t\treturn policy.Kept(\"the Job controller has not accounted for it\")\n", New: "",
		Package: decides, Tests: []string{"TestJudgeOfPods"},
	},
	{
		Invariant: "S5", Name: "a failed Pod goes before it could fail its Job",
		File: "policy/judging/judge.go",
		Old:  `case effective.Counter.Keeps(facts.Outcome) != "":`, New: "case false:",
		Package: decides, Tests: []string{"TestFailedPodsOfAJobThatTheyMayFail"},
	},
	{
		Invariant: "S5", Name: "a Pod goes before another controller could count it",
		File: "policy/resolution/pod_counter.go",
		Old:  "case c.Manager != \"\":", New: "case false:",
		Package: decides, Tests: []string{"TestPodsOfAJobManagedByAnother"},
	},
	{
		Invariant: "S5", Name: "a policy for whatever comes deletes the Pods of Jobs",
		File: "policy/resolution/resolve.go",
		Old:  "if w.facts.IsPod() && w.facts.Owner != nil && !of.NamesKind {", New: "if false {",
		Package: decides, Tests: []string{"TestOrderOfPodTTLs"},
	},
	{
		Invariant: "S6", Name: "a Job's never is not asked",
		File: "policy/resolution/pod_counter.go",
		Old:  "set: lifetime.TTLSet{All: c.TTL}, final: c.Err != nil}", New: "set: lifetime.TTLSet{All: c.TTL}, final: c.Err != nil, skipped: map[bool]string{true: \"never\"}[c.TTL != nil && c.TTL.TTL.Never]}",
		Package: decides, Tests: []string{"TestOrderOfPodTTLs"},
	},
	{
		Invariant: "S6", Name: "a Job that cannot be read lets the namespace decide",
		File: "policy/resolution/pod_counter.go",
		Old:  "set: lifetime.TTLSet{All: c.TTL}, final: c.Err != nil}", New: "set: lifetime.TTLSet{All: c.TTL}}",
		Package: decides, Tests: []string{"TestOrderOfPodTTLs"},
	},
	{
		Invariant: "S1", Name: "what a Job says about its Pods is not read again",
		File: "policy/judging/judge.go",
		Old:  "Live: value.Live || facts.IsJobsPod()", New: "Live: value.Live && !facts.IsJobsPod()",
		Package: feeds, Tests: []string{"TestJobIsReadBeforeItsPodIsDeleted"},
	},
	{
		Invariant: "S1", Name: "what a PodTally says about its Pods is not read again",
		File: "policy/resolution/pod_counter.go",
		Old:  "value := Value{Set: true, Source: w.winner.source, Live: true}", New: "value := Value{Set: true, Source: w.winner.source}",
		Package: decides, Tests: []string{"TestOrderOfPodTTLs"},
	},
	{
		Invariant: "S7", Name: "a Pod goes before its PodTally has counted it",
		File: "policy/judging/judge.go",
		Old:  "case facts.HeldByTally():\n\t\treturn policy.Kept(\"its PodTally has not counted it\")\n", New: "",
		Package: decides, Tests: []string{"TestPodThatIsToBeCounted"},
	},
	{
		Invariant: "S5", Name: "the namespace comes before the Job",
		File: "policy/resolution/resolve.go",
		Old:  "if counter := w.scope.Counter; counter != nil && w.ask(counter.level()) {", New: "if counter := w.scope.Counter; counter != nil && (w.scope.Namespace == nil || w.scope.Namespace.PodTTL == nil) && w.ask(counter.level()) {",
		Package: decides, Tests: []string{"TestOrderOfPodTTLs"},
	},
	{
		Invariant: "S5", Name: "a labelled Pod goes before its Job has accounted for it",
		File: "policy/judging/judge.go",
		Old:  "case facts.IsPod() && facts.Uncounted():", New: "case false:",
		Package: decides, Tests: []string{"TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "a TTL that cannot be read counts as 0",
		File: "policy/judging/judge.go",
		Old:  "case value.Err != nil:", New: "case value.Err != nil && value.Text == \"?\":",
		Package: decides, Tests: []string{"TestGarbageNeverShortensALife", "TestJudge"},
	},
	{
		Invariant: "S6", Name: "a label that cannot be read counts as 0",
		File: "policy/judging/judge.go",
		Old:  "case err != nil:\n\t\treturn unusable(err) // S6", New: "case err != nil && text == \"?\":\n\t\treturn unusable(err)",
		Package: decides, Tests: []string{"TestAnyLabelKeepsAsLongAsItSays", "TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "a label that expired before the object was created counts",
		File: "policy/judging/judge.go",
		Old:  "if !label.Expiry(facts.Created).After(facts.Created) {", New: "if label.Expiry(facts.Created).Equal(facts.Created) {",
		Package: decides, Tests: []string{"TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "a label on one of Curfew's own kinds counts",
		File: "policy/facts_origin.go",
		Old:  "func (f *Facts) OwnKind() bool { return f.Profile.Kind.Group == wellknown.Group }", New: "func (f *Facts) OwnKind() bool { return false }",
		Package: decides, Tests: []string{"TestJudgeLabel"},
	},
	{
		Invariant: "S6", Name: "a label that is expired when it is set is admitted",
		File: "policy/rules/expired_label.go",
		Old:  "return Deny, \": Curfew would delete", New: "return Warn, \": Curfew would delete",
		Package: "./policy/rules", Tests: []string{"TestExpiredLabel"},
	},
	{
		Invariant: "S6", Name: "a default reaches older objects",
		File: "policy/resolution/value.go",
		Old:  "return young, young || from.backfill", New: "return young, young || !from.backfill",
		Package: decides, Tests: []string{"TestYoungerAndOlderThanTheDefault"},
	},
	{
		Invariant: "S6", Name: "protect is honoured for the value true alone",
		File: "policy/facts.go",
		Old:  "return ok && value != \"false\"", New: "return ok && value == \"true\"",
		Package: decides, Tests: []string{"TestJudge", "TestGarbageNeverShortensALife"},
	},
	{
		Invariant: "S6", Name: "a container that ended at the epoch ended long ago",
		File: "policy/facts_object.go",
		Old:  "return at.Unix() > 0", New: "return !at.IsZero()",
		Package: decides, Tests: []string{"TestPodFinishTime"},
	},
	{
		Invariant: "S6", Name: "a finish time that Curfew saw is rounded down",
		File: "controller/feed/finish.go",
		Old:  "return at.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second)", New: "return at.UTC().Truncate(time.Second)",
		Package: feeds, Tests: []string{"TestFinishTimeIsWrittenDown"},
	},
	{
		Invariant: "S6", Name: "a finish time that was written down counts for a Pod that was created later",
		File: "policy/facts.go",
		Old:  "if err != nil || at.Before(f.Created) {", New: "if err != nil {",
		Package: decides, Tests: []string{"TestJudgeOfPods"},
	},
	{
		Invariant: "S6", Name: "a runtime that is gone says nothing, so that the next level speaks",
		File: "policy/resolution/resolve.go",
		Old:  "final: runtime.Missing, since", New: "final: false, since",
		Package: decides, Tests: []string{"TestRuntimeGoneKeeps"},
	},
	{
		Invariant: "S8", Name: "an error inside Curfew denies",
		File: "webhook/response.go",
		Old:  "outcome: outcomeError, status: http.StatusInternalServerError, err: err}", New: "outcome: outcomeError, status: http.StatusOK, err: err}",
		Package: admits, Tests: []string{"TestErrorsAreNoDenials"},
	},
	{
		Invariant: "S8", Name: "a panic in a rule takes the request down",
		File: "webhook/webhooks.go",
		Old:  "if reason := recover(); reason != nil {", New: "if reason := any(nil); reason != nil {",
		Package: admits, Tests: []string{"TestErrorsAreNoDenials"},
	},
	{
		Invariant: "S8", Name: "a patch that does not apply is sent",
		File: "webhook/mutate.go",
		Old:  "if err := object.Applies(draft.operations); err != nil {\n\t\treturn nil, err\n\t}\n", New: "",
		Package: admits, Tests: []string{"TestPatchIsTriedBeforeItIsSent", "TestUnappliablePatchIsDropped"},
	},
	{
		Invariant: "S8", Name: "something is deleted before the API server has told its time",
		File: "controller/engine/clock.go",
		Old:  "g.hold(true, ReasonNoServerTime, \"no answer of the API server has told its time yet\")\n\t\treturn r.wall, false", New: "return r.wall, true",
		Package: engine, Tests: []string{"TestSafety", "TestGuard"},
	},
}, slices.Concat(faults, handovers, ofRuntimes, ofPolicies, ofCleanup, ofInput, ofLookups, ofForgers, ofTenants, ofRuns, ofSchedules, ofCertificates, ofTallyAdmission, ofTally, ofListedNamespaces, stops, ofRechecks, ofPauses, ofRules, admission)...)
