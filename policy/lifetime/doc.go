// Package lifetime reads the values that decide how long an object lives.
//
// [ParseTTL] and [ParseDuration] read durations, [ParseLabel] reads TTL labels, in Curfew's grammar
// or in Kyverno's. A value becomes a [Setting]: its text, its field, its [Source] and its error, if
// it is unreadable. A [TTLSet] holds the settings of one level, by [Outcome]. [Bounds] limit
// settings; a bound that is unreadable keeps every object that it might have limited (S6).
package lifetime
