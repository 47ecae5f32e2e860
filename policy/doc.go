// Package policy makes Curfew's decisions and does nothing else: it knows no client, no clock and
// no logger.
//
// A request or a watched object becomes [Facts] (facts.go and its neighbours, one file a kind). Its
// context becomes a [Scope]: the namespace's annotations, the platform policies and the training
// runtime. [Resolve] walks the levels of precedence, once, and returns the [Effective] values with
// their sources; [ResolveTraced] also returns the levels it considered. Two paths lead on from
// there. Admission asks [Defaults] what to fill in and policy/rules what to deny, and passes on a
// [Decision]. The controller asks [Judge] and its neighbours whether and when to act. [Explain]
// collects all of it for people.
//
// Every function takes the instant as an argument, so that one decision reads the clock once
// (invariant S1).
package policy
