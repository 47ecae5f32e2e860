package main

// ofRechecks break what makes a judgement from before a change insufficient.
var ofRechecks = []Mutant{
	{
		Invariant: "S1", Name: "a change of a namespace does not reach its objects",
		File: "controller/engine/recheck.go",
		Old:  "max(e.last.in(o.Namespace), ", New: "max(0, ",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S1", Name: "a change that concerns a kind in a namespace does not reach its objects",
		File: "controller/engine/recheck.go",
		Old:  ", e.kinds[o.Kind].last.in(o.Namespace))", New: ", e.kinds[o.Kind].last.all)",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S1", Name: "a change is forgotten where too many namespaces have changed for a kind",
		File: "controller/engine/recheck.go",
		Old:  "*c = lastChanges{all: now}", New: "*c = lastChanges{all: c.all}",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S10", Name: "namespaces that changed are remembered without bound",
		File: "controller/engine/recheck.go",
		Old:  "if e.remembered >= maxChanges {", New: "if false {",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S3", Name: "a failed list forgets which Jobs' Pods are to be judged again",
		File: "controller/feed/list.go",
		Old:  "\t\t\t\tf.unlabelled.add(name, slices.Collect(maps.Keys(jobs))...)\n", New: "\t\t\t\t_ = maps.Keys(jobs)\n\t\t\t\t_ = slices.All[[]int]\n",
		Package: feeds, Tests: []string{"TestJobsManagedByAnotherController"},
	},
	{
		Invariant: "S1", Name: "rules from before a known change permit the DELETE",
		File: "controller/follow/source.go",
		Old:  "r.ok && r.as == r.known()", New: "r.ok",
		Package: "controller/follow", Tests: []string{"TestRecent"},
	},
	{
		Invariant: "S1", Name: "rules that were read long ago permit the DELETE",
		File: "controller/follow/source.go",
		Old:  "age < 0 || age >= recentFor", New: "age < 0",
		Package: "controller/follow", Tests: []string{"TestRecent"},
	},
	{
		Invariant: "S6", Name: "CRDs that are not watched at the moment count as absent",
		File: "controller/follow/platform.go",
		Old:  "if p.definitions.following.Load() {", New: "{",
		Package: "controller/follow", Tests: []string{"TestLiveReadsWithoutCRDs"},
	},
	{
		Invariant: "S10", Name: "a namespace that is slow holds up its kind",
		File: "controller/engine/room.go",
		Old:  "if q.own[namespace] == nil && len(q.own) < maxPartitions {", New: "if false {",
		Package: engine, Tests: []string{"TestSlowNamespaces"},
	},
	{
		Invariant: "S10", Name: "a namespace that does not answer pauses its kind",
		File: "controller/engine/finish.go",
		Old:  "e.unheard(j, r) && j.ofNamespace(r):", New: "false:",
		Package: engine, Tests: []string{"TestSlowNamespaces"},
	},
	{
		Invariant: "S10", Name: "a live judgment takes the slot of a request",
		File: "controller/engine/attempt.go",
		Old:  "if !e.moveTo(ctx, j, &e.judgements) {", New: "if false {",
		Package: engine, Tests: []string{"TestBlockedJudgementDelaysNoOther"},
	},
	{
		Invariant: "S10", Name: "a namespace whose live judgments hang holds up its whole kind",
		File: "controller/engine/room.go",
		Old:  "return &p.judging", New: "return &j.queue.rest.judging",
		Package: engine, Tests: []string{"TestSlowJudgementsOfANamespace"},
	},
	{
		Invariant: "S10", Name: "what was judged live asks for no slot",
		File: "controller/engine/room.go",
		Old:  "if !e.roomFor(w.to, s) || w.to == &e.requests && !e.passes(w.job, r) {", New: "if false {",
		Package: engine, Tests: []string{"TestJudgedWaitForRoom"},
	},
	{
		Invariant: "S3", Name: "what finds out whether an outage is over waits for its end",
		File: "controller/engine/attempt.go",
		Old:  "\tif !e.moveTo(ctx, j, &e.requests) {\n\t\tres.hold(", New: "\tif e.breakers.blocked(e.read().mono) > 0 || !e.moveTo(ctx, j, &e.requests) {\n\t\tres.hold(",
		Package: engine, Tests: []string{"TestJudgedProbesEndAnOutage"},
	},
}
