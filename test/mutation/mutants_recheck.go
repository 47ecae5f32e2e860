package main

// ofRechecks break what makes a judgement from before a change insufficient.
var ofRechecks = []Mutant{
	{
		Invariant: "S1", Name: "a change of a namespace does not reach its objects",
		File: "controller/engine/recheck.go",
		Old:  "kind.namespaces[o.Namespace], e.changes.namespaces[o.Namespace])", New: "kind.namespaces[o.Namespace])",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S1", Name: "a change that concerns a kind in a namespace does not reach its objects",
		File: "controller/engine/recheck.go",
		Old:  "kind.namespaces[o.Namespace], e.changes", New: "e.changes",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S1", Name: "a change is forgotten where too many namespaces have changed for a kind",
		File: "controller/engine/recheck.go",
		Old:  "\t\t\tof.changed = now\n", New: "",
		Package: engine, Tests: []string{"TestChangeTakesEffectForTheNextDelete"},
	},
	{
		Invariant: "S3", Name: "a failed list forgets which Jobs' Pods are to be judged again",
		File: "controller/feed/rejudge.go",
		Old:  "\t\t\t\tf.unlabelled.add(name, slices.Collect(maps.Keys(jobs))...)\n", New: "\t\t\t\t_ = maps.Keys(jobs)\n\t\t\t\t_ = slices.All[[]int]\n",
		Package: feeds, Tests: []string{"TestJobsManagedByAnotherController"},
	},
	{
		Invariant: "S1", Name: "rules from before a known change permit the DELETE",
		File: "controller/follow/shared.go",
		Old:  "r.ok && r.as == r.known()", New: "r.ok",
		Package: "controller/follow", Tests: []string{"TestRecent"},
	},
	{
		Invariant: "S1", Name: "rules that were read long ago permit the DELETE",
		File: "controller/follow/shared.go",
		Old:  "age < 0 || age >= recentFor", New: "age < 0",
		Package: "controller/follow", Tests: []string{"TestRecent"},
	},
	{
		Invariant: "S6", Name: "CRDs that are not watched at the moment count as absent",
		File: "controller/follow/platform_live.go",
		Old:  "if p.definitions.following.Load() {", New: "{",
		Package: "controller/follow", Tests: []string{"TestLiveReadsWithoutCRDs"},
	},
	{
		Invariant: "S10", Name: "a namespace that is slow holds up its kind",
		File: "controller/engine/partition.go",
		Old:  "if q.own[namespace] == nil && len(q.own) < partitionsMost {", New: "if false {",
		Package: engine, Tests: []string{"TestSlowNamespaces"},
	},
	{
		Invariant: "S10", Name: "a namespace that does not answer pauses its kind",
		File: "controller/engine/scopes.go",
		Old:  "e.unheard(j, r) && j.ofNamespace(r):", New: "false:",
		Package: engine, Tests: []string{"TestSlowNamespaces"},
	},
	{
		Invariant: "S10", Name: "a live judgement takes the slot of a request",
		File: "controller/engine/rejudge.go",
		Old:  "\te.toJudge(j)\n", New: "",
		Package: engine, Tests: []string{"TestBlockedJudgementDelaysNobody"},
	},
}
