// Package engine decides when an action is carried out, and how fast.
//
// It knows neither kinds nor policy, and sends no request about an object itself. A [Trigger] names
// one reason for which objects become due and the action that is then carried out; all of them are
// listed in [Options.Triggers]. A feed lists and watches one kind, judges what it sees and says
// what is due when: [Engine.Upsert] inserts, postpones or advances, [Engine.Remove] cancels,
// [Engine.Terminating] hands over what is already being deleted, and a [Relist] drops what a full
// list no longer shows. The engine keeps that in a compact index (about 140 bytes an object, see
// index.go), ordered by the instant something has to be done. An object has one entry for each
// trigger: neither overwrites or cancels the other, and the first that is due acts.
//
// When an entry is due, [Engine.Run] gives it to a worker, and the worker calls Action.Do for the
// very state that was judged (S1, S2). Deleted: one log line, one lateness sample, and a tombstone
// that keeps stale watch events from bringing the entry back. Conflict: the kind's [Judge] reads
// the object live and decides again, in the same worker and at once. Anything else: the entry stays
// and is tried again, for ever, after a backoff of at least a second (S3). Which part of the API
// server wrote an answer (action.Origin) decides what it is evidence of: an admission webhook
// chooses its code and its Retry-After freely. The number of workers follows from what the API
// server answers (package controller/pace), never from a fixed number.
//
// [Engine.Submit] carries out the action of a trigger on objects that are not tracked, such as
// those of a cleanup run, and yields to everything that is. A [Run] judges them and gets every
// outcome.
//
// When a namespace, a policy, a profile or a runtime changes, [Engine.RecheckNamespace],
// [Engine.RecheckKinds] and [Engine.RecheckIn] make every judgement that depends on it and is older
// than the change insufficient: the Judge is asked first (recheck.go).
//
// Four things may hold actions back, and each is a metric and a [BreakerEvent]: the clock
// (guard.go: a jump, or a skew against the API server's Date header beyond a bound), a breaker
// (breaker.go: the API server cannot be reached, a kind answers with errors, a source's deletions
// are refused), a rate (package controller/pace: deletions a minute, backfill a minute)
// and Retry-After.
//
// Nothing is kept on disk. After a restart the feeds list everything again, and what fell due
// meanwhile is done at once.
package engine
