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
}
