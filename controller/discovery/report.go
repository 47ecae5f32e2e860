package discovery

import (
	"maps"
	"slices"

	"curfew.dev/curfew/policy"
)

// States of a kind, as the log shows them.
const (
	watched   = "watched"
	watchedIn = "watched in "
	skipped   = "skipped"
	gone      = "no longer served"
)

// report logs what has changed, in one line for all kinds, and keeps the metrics.
func (l *Labels) report(states map[string]string) {
	changed := map[string][]string{}
	count := 0
	for name, state := range states {
		if state == skipped {
			l.source.Skipped.WithLabelValues(name, "permission").Set(1)
		} else {
			l.source.Skipped.DeleteLabelValues(name, "permission")
			count++
		}
		if l.reported[name] != state {
			changed[state] = append(changed[state], name)
		}
	}
	for name := range l.reported {
		if states[name] == "" {
			l.source.Skipped.DeleteLabelValues(name, "permission")
			changed[gone] = append(changed[gone], name)
		}
	}
	l.watched.Set(float64(count))
	l.reported = states
	for _, state := range slices.Sorted(maps.Keys(changed)) {
		slices.Sort(changed[state])
		hint := ""
		if state == skipped {
			hint = "grant get, list, watch and delete to a ClusterRole with label " + policy.LabelAggregate + ", or bind them in a namespace"
		}
		l.log.Info("TTL labels of kinds: "+state, "count", len(changed[state]), "kinds", changed[state], "hint", hint)
	}
}
