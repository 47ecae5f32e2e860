package main

const (
	rulesOf   = "policy/rules"
	deadlines = "controller/action/stop"
)

// faults bring back what a review of the first version found, and regressions that would look
// alike.
var faults = []Mutant{
	{
		Invariant: "S9", Name: "the time of a loop grows with the square of its items",
		File: "policy/expression/iteration.go",
		Old:  "if conditions[node.ID()] {", New: "if false {",
		Package: "policy/expression", Tests: []string{"TestLoopsAreLinear"},
	},
	{
		Invariant: "S9", Name: "the expressions of a review share no limit",
		File: "policy/expression/run.go",
		Old:  "left.Add(-p.cost(details, exceeded))", New: "_ = p.cost(details, exceeded)",
		Package: "policy/expression", Tests: []string{"TestLimitedEvaluations", "TestStatesAreLimited"},
	},
	{
		Invariant: "S9", Name: "a bound whose evaluation was stopped only warns",
		File: "policy/rules/bounds.go",
		Old:  "case policy.Undecided(enforced) != nil:", New: "case false:",
		Package: admits, Tests: []string{"TestReviewDoesNotOutlastItsTime", "TestBoundsNeedTime"},
	},
	{
		Invariant: "S1", Name: "a webhook's 409 counts as a conflict",
		File: "controller/action/answer.go",
		Old:  "case code == http.StatusConflict && origin != FromAdmission:", New: "case code == http.StatusConflict:",
		Package: engine, Tests: []string{"TestDenialKeepsThePrecondition"},
	},
	{
		Invariant: "S1", Name: "a webhook's denial is not recognised",
		File: "controller/action/answer.go",
		Old:  "case strings.HasPrefix(s.Message, prefixDenied), strings", New: "case strings",
		Package: deletes, Tests: []string{"TestClientReads"},
	},
	{
		Invariant: "S1", Name: "any kind falls back to the UID after two conflicts",
		File: "controller/action/deletion/deletion.go",
		Old:  "case due.Aggregated && due.Disproved >= 2:", New: "case due.Disproved >= 2:",
		Package: engine, Tests: []string{"TestFallsBackToUID"},
	},
	{
		Invariant: "S1", Name: "an object without finalizers falls back to the UID",
		File: "controller/action/deletion/deletion.go",
		Old:  "return len(due.Finalizers) > 0 && propagation", New: "return propagation",
		Package: engine, Tests: []string{"TestFallsBackToUID"},
	},
	{
		Invariant: "S1", Name: "conflicts of different states add up",
		File: "controller/engine/rejudge.go",
		Old:  "} else {\n\t\tdue.Disproved = 0\n\t}", New: "}",
		Package: engine, Tests: []string{"TestNoFallbackWhileItChanges"},
	},
	{
		Invariant: "S1", Name: "a change of a namespace or policy does not reach what is tracked",
		File: "controller/engine/attempt.go",
		Old:  "if live || e.outdated(&res.sent) ||", New: "if live ||",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete", "TestStaleJudgementDoesNotUndoAChange", "TestChangeReachesAWorkerThatHasNotSent"},
	},
	{
		Invariant: "S1", Name: "a live read from before a change permits the DELETE",
		File: "controller/engine/rejudge.go",
		Old:  "case e.outdatedLocked(judged) || len(j.queue.held) > 0:", New: "case false:",
		Package: engine, Tests: []string{"TestChangeDuringTheLiveRead", "TestHold"},
	},
	{
		Invariant: "S1", Name: "a feed's stale judgement undoes a change",
		File: "controller/feed/judge.go",
		Old:  "due.Epoch, due.Payload = epoch, payload", New: "due.Epoch, due.Payload = f.options.Engine.Epoch(), payload",
		Package: feeds, Tests: []string{"TestChangeWhileAFeedJudges"},
	},
	{
		Invariant: "S1", Name: "a corrected KindProfile does not apply to what is tracked",
		File: "controller/engine/kinds.go",
		Old:  "e.kinds[i].changed = e.changes.count.Add(1)", New: "_ = e.changes.count.Add(1)",
		Package: engine, Tests: []string{"TestNewRulesAreAskedBeforeAnythingIsListed"},
	},
	{
		Invariant: "S1", Name: "the skew is learnt from any answer",
		File: "controller/servertime/skew.go",
		Old:  "if err == nil && resp.StatusCode < http.StatusInternalServerError && dates(r.URL.Path) {", New: "if err == nil {",
		Package: "controller/servertime", Tests: []string{"TestSkewLearnsFromTheAPIServerAlone"},
	},
	{
		Invariant: "S1", Name: "a finish time from before the creation counts",
		File: "policy/facts.go",
		Old:  "case at.Before(f.Created):\n\t\t\t*at = f.Created\n", New: "",
		Package: decides, Tests: []string{"TestJudge", "TestJudgeOfPods"},
	},
	{
		Invariant: "S3", Name: "a 404 of a subresource counts as the object's",
		File: "controller/engine/attempt.go",
		Old:  "case res.Outcome == action.Gone && (!j.trigger.Deletes || e.trackedElsewhere(j)):", New: "case res.Outcome == action.Gone && false:",
		Package: engine, Tests: []string{"TestMissingSubresourceDropsNothing", "TestMissingIsConfirmedForOtherTriggers"},
	},
	{
		Invariant: "S3", Name: "every 429 pauses everything",
		File: "controller/engine/queue.go",
		Old:  "return res.result == Throttled && res.Origin == action.FromServer && !k.Aggregated", New: "return res.result == Throttled",
		Package: engine, Tests: []string{"TestThrottledObjects", "TestThrottledKind"},
	},
	{
		Invariant: "S3", Name: "a webhook's 500 counts against its kind",
		File: "controller/engine/scopes.go",
		Old:  "case res.Err != nil && res.Origin == action.FromAdmission:", New: "case false:",
		Package: engine, Tests: []string{"TestOneTenantsWebhook"},
	},
	{
		Invariant: "S3", Name: "an object that never rests is not reported",
		File: "controller/engine/finish.go",
		Old:  "if en.attempts >= blockedAfter {", New: "if false {",
		Package: engine, Tests: []string{"TestObjectThatNeverRests", "TestBlockedIsForgotten"},
	},
	{
		Invariant: "S5", Name: "a key from the owner's template deletes the child",
		File: "controller/feed/judge.go",
		Old:  "verdict, err = f.inherited(ctx, facts, verdict)", New: "",
		Package: feeds, Tests: []string{"TestKeyFromAnOwnersTemplate", "TestTTLFromAnOwnersTemplate"},
	},
	{
		Invariant: "S5", Name: "owners are not asked before a DELETE",
		File: "controller/feed/judge.go",
		Old:  " || f.asksOwner(facts),", New: ",",
		Package: feeds, Tests: []string{"TestKeyFromAnOwnersTemplate", "TestTTLFromAnOwnersTemplate"},
	},
	{
		Invariant: "S5", Name: "a copy made by MultiKueue is deleted",
		File: "policy/facts.go",
		Old:  "_, ok := f.Labels[LabelMultiKueueOrigin]\n\treturn ok", New: "_, ok := f.Labels[LabelMultiKueueOrigin]\n\treturn ok && false",
		Package: decides, Tests: []string{"TestMultiKueueCopiesAreKept"},
	},
	{
		Invariant: "S5", Name: "a TrainJob's JobSet is deleted, and the training runs again",
		File: "policy/rerun.go",
		Old:  "if !ok || child != f.Profile.Kind.GroupKind() {", New: "if true || !ok || child != f.Profile.Kind.GroupKind() {",
		Package: decides, Tests: []string{"TestJobSetOfATrainJobIsKept"},
	},
	{
		Invariant: "S4", Name: "what ran to its end is stopped at its deadline",
		File: "controller/action/stop/steps.go",
		Old:  "if s.left, err = s.ranToItsEnd(ctx); s.left || err != nil {", New: "if s.left, err = s.ranToItsEnd(ctx); err != nil {",
		Package: deadlines, Tests: []string{"TestWhatRanToItsEndIsLeftAlone"},
	},
	{
		Invariant: "S4", Name: "a deadline may begin with any step",
		File: "controller/action/stop/steps.go",
		Old:  "if first := s.plan.Steps; len(first) == 0 || first[0].Action", New: "if first := s.plan.Steps; len(first) == 0 || false && first[0].Action",
		Package: deadlines, Tests: []string{"TestFirstStepFailsOrSuspends", "TestNothingIsStoppedBeforeTheFirstStep", "TestDryRunDeletesNothing"},
	},
	{
		Invariant: "S4", Name: "later steps do not wait for the first",
		File: "controller/action/stop/steps.go",
		Old:  "if i > 0 && !s.begun {", New: "if i > 0 && false {",
		Package: deadlines, Tests: []string{"TestNothingIsStoppedBeforeTheFirstStep", "TestDryRunDeletesNothing", "TestOnlyTheJudgedStateIsStopped"},
	},
	{
		Invariant: "S6", Name: "a stamp that its author forged is believed on CREATE",
		File: "policy/unfilled.go",
		Old:  "if !slices.ContainsFunc(scopes, func(scope *Scope) bool {",
		New: "if !slices.ContainsFunc(append(scopes, &Scope{}), func(scope *Scope) bool {\n" +
			"\t\t\tif len(facts.Annotations) > 0 {\n\t\t\t\treturn true\n\t\t\t}",
		Package: rulesOf, Tests: []string{"TestForgedStampOnCreate", "TestShortTTL", "TestDecisionSource"},
	},
	{
		Invariant: "S6", Name: "a bound that cannot be read lifts one that can",
		File: "policy/bounds.go",
		Old:  "case outer.Err != nil:\n\t\tbound, beside = inner, append([]*Setting{outer}, beside...)", New: "case outer.Err != nil:\n\t\tbound = outer",
		Package: decides, Tests: []string{"TestNarrow"},
	},
	{
		Invariant: "S6", Name: "a namespace's mode softens a platform policy",
		File: "policy/decision.go",
		Old:  "if d.Findings[i].Severity == Deny && d.Findings[i].Level == LevelNamespace {", New: "if d.Findings[i].Severity == Deny {",
		Package: rulesOf, Tests: []string{"TestNothingLiftsTheBoundsOfAPolicy", "TestModesSoftenTheNamespacesOwnBounds"},
	},
	{
		Invariant: "S6", Name: "a finish time that Curfew saw is read off the local clock",
		File: "controller/feed/finish.go",
		Old:  "now, err := r.feed.options.ServerTime(ctx)", New: "now, err := r.feed.options.Clock.Now(), error(nil)",
		Package: feeds, Tests: []string{"TestFinishTimeIsTheServers"},
	},
	{
		Invariant: "S6", Name: "a namespace that was changed past admission is stamped by the local clock",
		File: "controller/follow/stamps.go",
		Old:  "now, unknown = n.serverTime(ctx)", New: "now = n.clock.Now()",
		Package: "controller/follow", Tests: []string{"TestStampNamespacesPastAdmission"},
	},
	{
		Invariant: "S6", Name: "a namespace is stamped by the webhook's clock",
		File: "webhook/namespace.go",
		Old:  "\tif policy.DefaultsHash(annotations) != \"\" {\n\t\tnow = w.stampTime(ctx, request, now)\n\t}\n", New: "",
		Package: admits, Tests: []string{"TestNamespaceIsStampedByTheServersTime"},
	},
	{
		Invariant: "S6", Name: "the API server's time is taken for the latest that it may be",
		File: "controller/servertime/servertime.go",
		Old:  "wider - time.Duration(s.lo)", New: "wider - time.Duration(s.hi)",
		Package: "controller/servertime", Tests: []string{"TestServerTimeIsNeverTooEarly"},
	},
	{
		Invariant: "S6", Name: "the API server's time is known after a jump",
		File: "controller/servertime/servertime.go",
		Old:  "d > JumpBound || d < -JumpBound {", New: "false && d > JumpBound {",
		Package: "controller/servertime", Tests: []string{"TestServerTimeIsUnknown"},
	},
	{
		Invariant: "S6", Name: "a policy is stamped by the local clock",
		File: "controller/follow/status.go",
		Old:  "now, err := s.serverTime(ctx)", New: "now, err := s.clock.Now(), error(nil)",
		Package: "controller/follow", Tests: []string{"TestPolicyIsStampedByTheServersTime"},
	},
	{
		Invariant: "S6", Name: "a mark carries the local clock's time",
		File: "controller/action/stop/mark.go",
		Old:  "at, err := s.options.ServerTime(ctx)", New: "at, err := s.options.Clock.Now(), error(nil)",
		Package: deadlines, Tests: []string{"TestMarksCarryTheServersTime"},
	},
	{
		Invariant: "S6", Name: "what does not say when it finished gets a time of its own",
		File: "policy/judge.go",
		Old:  "case facts.FinishTime.IsZero() && !facts.IsPod():", New: "case false:",
		Package: decides, Tests: []string{"TestJudge"},
	},
	{
		Invariant: "S6", Name: "a finish time that was written down counts for any kind",
		File: "policy/facts.go",
		Old:  "if !ok || !f.IsPod() || !f.Finished", New: "if !ok || !f.Finished",
		Package: decides, Tests: []string{"TestJudge"},
	},
	{
		Invariant: "S3", Name: "overdue is zero while the clock is wrong",
		File: "controller/engine/snapshot.go",
		Old:  "now = e.guard.best(r)", New: "",
		Package: engine, Tests: []string{"TestOverdueWhileTheClockIsWrong"},
	},
	{
		Invariant: "S3", Name: "a watch that never sends its bookmark never ends",
		File: "controller/feed/list.go",
		Old:  "case now := <-over.C():\n", New: "case now := <-(<-chan time.Time)(nil):\n",
		Package: feeds, Tests: []string{"TestStreamThatNeverEnds"},
	},
	{
		Invariant: "S3", Name: "a stream that is cut is streamed again without bound",
		File: "controller/feed/list.go",
		Old:  "f.cut >= streamTries", New: "f.cut < 0",
		Package: feeds, Tests: []string{"TestStreamsThatAreCut"},
	},
	{
		Invariant: "S3", Name: "no object is overdue while not all are known",
		File: "controller/engine/metrics.go",
		Old:  "if known || count > 0 {", New: "if true {",
		Package: engine, Tests: []string{"TestOverdueIsUnknown"},
	},
	{
		Invariant: "S2", Name: "a deadline's steps do not look whether it is the judged object",
		File: "controller/action/stop/steps.go",
		Old:  "case object.UID != s.due.UID || object.ResourceVersion != s.due.ResourceVersion:", New: "case object.UID == \"?\":",
		Package: deadlines, Tests: []string{"TestOnlyTheJudgedStateIsStopped"},
	},
	{
		Invariant: "S4", Name: "a stored profile may stop an object with any first step",
		File: "policy/expression/enforcement.go",
		Old:  "\t\tif !stoppable(way.Stop) {\n\t\t\treturn out.withoutStop()\n\t\t}\n", New: "",
		Package: "policy/expression", Tests: []string{"TestFirstStepOfAStoredProfile"},
	},
	{
		Invariant: "S6", Name: "a runtime's deadline reaches TrainJobs that run",
		File: "policy/resolve.go",
		Old:  "next := level{source: Source{LevelRuntime, of.Name}, set: TTLSet{All: of.Deadline}}", New: "next := level{source: Source{LevelRuntime, of.Name}, set: TTLSet{All: of.Deadline}, backfill: true}",
		Package: decides, Tests: []string{"TestRuntimeDeadlineDoesNotReachWhatRuns"},
	},
	{
		Invariant: "S1", Name: "a live judgement goes by the profile of the cache",
		File: "policy/platform/snapshot.go",
		Old:  "live.profiles, live.incomplete = profiles, nil", New: "live.incomplete = nil",
		Package: "controller/follow", Tests: []string{"TestLiveReadsProfilesPastTheCache"},
	},
	{
		Invariant: "S1", Name: "a live judgement goes by the profile of the feed",
		File: "controller/feed/judge.go",
		Old:  "if f.kind.rules != nil && !", New: "if false && !",
		Package: feeds, Tests: []string{"TestCorrectedProfileIsReadLive"},
	},
	{
		Invariant: "S3", Name: "a deadline is left to a controller that ignores it",
		File: "policy/deadline.go",
		Old:  "if facts.DeadlineByCurfew {", New: "if false {",
		Package: decides, Tests: []string{"TestJudgeDeadline"},
	},
	{
		Invariant: "S6", Name: "a default is written into a field that nobody enforces",
		File: "policy/defaults.go",
		Old:  "return f.Profile.Deadline != nil && !f.DeadlineByCurfew", New: "return f.Profile.Deadline != nil",
		Package: decides, Tests: []string{"TestDefaultDeadlineWhereNobodyActs", "TestAnnotatedDeadlineIsCopied"},
	},
	{
		Invariant: "S6", Name: "admission gives the default of a trigger that is switched off",
		File: "policy/scope.go",
		Old:  "return !s.Creating || !slices.Contains(s.Off, trigger)", New: "return !s.Creating || !slices.Contains(s.Off, trigger) || true",
		Package: decides, Tests: []string{"TestTriggersThatAreSwitchedOff"},
	},
	{
		Invariant: "S6", Name: "a Job that is left to Kubernetes is deleted",
		File: "policy/value.go",
		Old:  "return e.LeaveNative && ", New: "return false && ",
		Package: decides, Tests: []string{"TestLeaveNative"},
	},
}
