// Package expire decides when an action is carried out, and how fast.
//
// It knows neither kinds nor policy, and sends no request about an object itself. A [Trigger] names
// one reason why objects become due and the action on due objects; [Options.Triggers] lists all of
// them. A feed lists and watches one kind, judges each object and tells the engine when it is due:
// [Engine.Upsert] inserts, postpones or advances an object, [Engine.Remove] cancels it,
// [Engine.Terminating] hands over an object that is already being deleted, and a [Relist] drops
// objects that a full list no longer shows. The engine keeps them in a compact index (about 140
// bytes an object, see package index), ordered by the instant at which the engine must look at
// them. An object has one entry for each trigger: no entry overwrites or cancels another, and the
// first due entry acts.
//
// When an entry is due, [Engine.Run] gives it to a worker, and the worker calls Action.Do for
// exactly the state that was judged (S1, S2). Deleted: one log line, one lateness sample, and a
// tombstone that keeps stale watch events from bringing the entry back. Conflict: the kind's
// [Judge] reads the object live and decides again, in the same worker and at once. Anything else:
// the entry stays and is tried again, without end, after a backoff of at least a second (S3). The
// engine interprets an answer by the part of the API server that wrote it (deletion.Origin): an
// admission webhook chooses its code and its Retry-After freely. The engine derives the number of
// workers from the API server's answers (package controller/deletion).
//
// [Engine.Delete] makes one attempt at an object that is not tracked, such as one of a cleanup run,
// after all tracked objects that are due, and returns its outcome.
//
// When a namespace, a policy, a profile or a runtime changes, [Engine.RecheckNamespace],
// [Engine.RecheckKinds] and [Engine.RecheckIn] invalidate every older judgement that depends on it:
// the engine calls the Judge before the action (recheck.go).
//
// Four things may hold actions back, and each is a metric and a [BreakerEvent]: the clock
// (clock.go: a jump, or a skew against the API server's Date header beyond a bound), a breaker
// (breaker.go: the API server cannot be reached, a kind answers with errors, a source's deletions
// are refused), a rate (Rate: deletions a minute, backfill a minute)
// and Retry-After.
//
// The methods of [Engine] itself are the loop (dispatch.go, attempt.go, finish.go, delete.go). Each
// other concern is a part of it with its own state: the tracked entries (entries.go), changes and
// pauses (recheck.go), the clock, breakers and rates, and the slots of jobs (slots.go). All
// parts share one lock (base.go).
//
// Nothing is kept on disk. After a restart the feeds list everything again, and the engine acts at
// once on objects that fell due meanwhile.
package expire
