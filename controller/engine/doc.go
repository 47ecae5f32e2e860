// Package engine is the one engine through which every deletion of Curfew goes.
//
// It knows neither kinds nor policy. A feed lists and watches one kind, judges what it sees and tells the engine what is
// due when: [Engine.Upsert] inserts, postpones or advances, [Engine.Remove] cancels, [Engine.Terminating] hands over what
// is already being deleted, and a [Relist] sweeps out what a full list no longer shows. The engine holds that in a
// compact index (about 140 bytes an object, see index.go) ordered by the instant something has to be done. An object may be
// tracked for several reasons (a TTL after finished, a label), each by a feed of its own and in a [Lane] of its own: neither
// overwrites or cancels what the other said, and the first that is due deletes the object.
//
// When an entry is due, [Engine.Run] gives it to a worker, and the worker sends one DELETE with the preconditions UID and
// resourceVersion of the very state that was judged (S1, S2). Accepted: one log line, one lateness sample, and a tombstone
// that keeps stale watch events from bringing the entry back. Conflict: the kind's [Judge] reads the object afresh and
// decides again, in the same worker and at once. Anything else: the entry stays and is tried again, for ever, after a
// backoff of at least a second (S3). Which part of the API server wrote an answer ([Origin]) decides what the answer is
// evidence of: an admission webhook chooses its code and its Retry-After freely. How many workers there are follows from what the API server answers (concurrency.go),
// never from a fixed number.
//
// When a namespace, a policy, a profile or a runtime changes, [Engine.RecheckNamespace] and [Engine.RecheckKinds] make
// every judgement from before the change insufficient for a DELETE: the Judge is asked first (recheck.go).
//
// Four things may hold deletions back, and each is a metric and a [BreakerEvent]: the clock (clock.go, skew.go: a jump, or
// a skew against the API server's Date header beyond a bound), a breaker (breaker.go: the API server cannot be reached,
// a kind answers with errors, a source's deletions are refused), a rate (rate.go: deletions a minute, backfill a minute)
// and Retry-After.
//
// Nothing is kept on disk. After a restart the feeds list everything again, and what fell due meanwhile goes at once.
package engine
