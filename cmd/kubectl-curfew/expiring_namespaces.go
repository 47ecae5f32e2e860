package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// expiringNamespaces are the expiries that match a query of the Namespace that is asked about, or
// of all where kinds were named. Their deletion deletes everything in them. None where Namespaces
// are listed anyway, or only cluster-scoped kinds are.
func expiringNamespaces(ctx context.Context, w *world.World, kinds []world.Kind, namespace string, query *expiringQuery) ([]*world.Entry, error) {
	if slices.ContainsFunc(kinds, world.Kind.IsNamespace) || !slices.ContainsFunc(kinds, func(kind world.Kind) bool { return !kind.ClusterScoped }) {
		return nil, nil
	}
	entries, err := w.NamespaceEntries(ctx, namespace, query.now)
	if err != nil {
		return nil, err
	}
	var out []*world.Entry
	for i := range entries {
		if query.matches(&entries[i]) {
			out = append(out, &entries[i])
		}
	}
	slices.SortFunc(out, byTime)
	return out, nil
}

// namespacesText says that objects are deleted with their Namespaces, whatever they say themselves.
func namespacesText(of []*world.Entry, now time.Time) string {
	if len(of) == 1 {
		return fmt.Sprintf("Namespace %s expires %s, and everything in it is deleted with it", of[0].Name, expires(of[0], now.Location()))
	}
	var names []string
	for _, entry := range of {
		names = append(names, entry.Name)
	}
	return fmt.Sprintf("%s expire, and everything in them is deleted with them: %s. See kubectl curfew expiring namespaces -A",
		count(len(of), "Namespace"), strings.TrimSuffix(some(names), "."))
}
