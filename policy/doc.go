// Package policy decides, and does nothing else: it knows no client, no clock and no logger.
//
// A request or a watched object becomes [Facts] (facts.go and its neighbours, one file a kind). What surrounds it, the
// namespace's annotations, platform policies and the training runtime, becomes a [Scope]. [Resolve] walks the levels of
// precedence and answers with the [Effective] values and where each came from. From there two roads lead on: admission
// asks [Defaults] what to fill in and policy/rules what to refuse, and hands on a [Decision]; the controller asks [Judge]
// whether the object goes, when, and why not.
//
// Every function takes the instant it judges by as an argument, so that one decision reads the clock once (invariant S1).
package policy
