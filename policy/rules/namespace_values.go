package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// namespaceValues refuses annotations of a Namespace that cannot be read or contradict each other, and warns of short
// default TTLs.
//
// Restricted fields: metadata.annotations[curfew.dev/default-*, min-*, max-*, mode, backfill].
// Allowed values: durations (TTLs also "never"), enforce|warn|dry-run, true|false; min not above max.
var namespaceValues = Rule{
	Name: "namespace-values",
	Check: func(s *Subject) []policy.Finding {
		if !isNamespace(s.Facts) {
			return nil
		}
		namespace := policy.ParseNamespace(s.Name, s.Annotations, s.Labels)
		var out []policy.Finding
		for _, err := range namespace.Errors {
			out = append(out, s.deny(err.Field, fmt.Sprint(err.BadValue), err.Detail))
		}
		// The platform's bounds are outer ones: with them, too, some value has to be left.
		outer := policy.Scope{Policies: s.Scope.Policies}
		if err := outer.Bounds().Narrow(namespace.Bounds).Empty(); err != nil {
			out = append(out, s.deny("metadata.annotations", err.Error(), err.Error()))
		}
		for _, setting := range append(namespace.TTL.Settings(), namespace.PodTTL) {
			if setting != nil {
				out = append(out, short(s, setting, "a Job or Pod")...)
			}
		}
		return out
	},
}
