package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// bench is one measurement. It may leave nothing behind in the control plane that the next would notice.
type bench struct {
	name  string
	about string
	run   func(context.Context, *environment) ([]result, error)
}

// benches lists all, in the order in which they run.
var benches = []bench{drain}

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
