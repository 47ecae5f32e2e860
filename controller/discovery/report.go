package discovery

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
)

// States of a kind, as the log shows them.
const (
	watched   = "watched"
	watchedIn = "watched in "
	skipped   = "skipped"
	gone      = "no longer served"
)

// report logs the changes, in one line for all kinds, and keeps the metrics.
func (l *Labels) report(states map[schema.GroupKind]string) {
	changed := map[string][]string{}
	count := 0
	for kind, state := range states {
		if state == skipped {
			l.source.Skipped.WithLabelValues(kind.Group, kind.Kind, "permission").Set(1)
		} else {
			l.source.Skipped.DeleteLabelValues(kind.Group, kind.Kind, "permission")
			count++
		}
		if l.reported[kind] != state {
			changed[state] = append(changed[state], kind.String())
		}
	}
	for kind := range l.reported {
		if states[kind] == "" {
			l.source.Skipped.DeleteLabelValues(kind.Group, kind.Kind, "permission")
			changed[gone] = append(changed[gone], kind.String())
		}
	}
	l.watched.Set(float64(count))
	l.reported = states
	for _, state := range slices.Sorted(maps.Keys(changed)) {
		slices.Sort(changed[state])
		hint := ""
		if state == skipped {
			hint = "grant get, list, watch and delete to a ClusterRole with label " + wellknown.LabelAggregate + ", or bind them in a namespace"
		}
		l.log.Info("TTL labels of kinds: "+state, "count", len(changed[state]), "kinds", changed[state], "hint", hint)
	}
}
