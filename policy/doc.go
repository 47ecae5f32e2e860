// Package policy knows what Curfew reads off one object and how each kind expresses it. Together
// with the packages below it makes Curfew's decisions and does nothing else: no client, no clock
// and no logger.
//
// A request or a watched object becomes [Facts] (facts.go, and one file each for Jobs, Pods and
// other objects), by the [Profile] of its kind (profile.go). A judgement of facts is a
// [Verdict] (verdict.go). The packages build on each other:
//
//   - wellknown: annotations, labels and other names
//   - quote, fieldpath: how messages quote values, and paths of fields
//   - lifetime: durations, TTL labels, settings with their source, bounds
//   - policy: facts, profiles, verdicts
//   - resolution: which level of precedence sets each value, and which defaults admission fills in
//   - judging: whether and when an object is deleted or stopped, and the obstacles
//   - rules: which requests admission denies or warns about
//
// Every function takes the instant as an argument, so that one decision reads the clock once
// (invariant S1).
package policy
