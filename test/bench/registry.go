package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// bench is one measurement. It may leave nothing behind in the control plane that the next would
// notice.
type bench struct {
	name  string
	about string
	run   func(context.Context, *environment) ([]result, error)
	// flags adds the flags of this bench alone; nil where there are none. Theirs are named after the
	// bench, as in -drain-jobs.
	flags func(*flag.FlagSet)
	// position orders the benches: those with the lower number run first.
	position int
}

// benches lists all, in the order in which they run.
var benches []bench

// register adds a bench. Each file that holds one calls it from its init, so that a new bench
// touches no other file.
func register(b bench) {
	benches = append(benches, b)
	slices.SortFunc(benches, func(a, b bench) int {
		return cmp.Or(cmp.Compare(a.position, b.position), strings.Compare(a.name, b.name))
	})
}

// choose returns the benches that a comma-separated list names, all if it is empty.
func choose(only string) ([]bench, error) {
	if only == "" {
		return benches, nil
	}
	var chosen []bench
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(benches, func(b bench) bool { return b.name == name })
		if i < 0 {
			var names []string
			for _, b := range benches {
				names = append(names, b.name)
			}
			return nil, fmt.Errorf("-only %q: there is no bench %q, take some of %s", only, name, strings.Join(names, ","))
		}
		chosen = append(chosen, benches[i])
	}
	return chosen, nil
}
