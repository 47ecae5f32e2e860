// Package loop holds what the background loops of Curfew have in common: a [Signal] that wakes one
// loop, a [Backoff] that never gives up, a [RetryQueue] of names that wait for work, and [Worker],
// which gathers signals and retries what failed.
//
// All waits end with their context and follow an injected clock.
package loop
