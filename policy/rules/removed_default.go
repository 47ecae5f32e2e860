package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// removedDefault refuses to take the TTL away where a max-ttl holds: a stamped object without a value has no TTL.
//
// Restricted fields: the native TTL and metadata.annotations[curfew.dev/ttl-after-*], once set.
// Allowed values: any within the bounds.
var removedDefault = Rule{
	Name: "removed-default",
	Transition: func(r *Request) []policy.Finding {
		limit := r.Scope.Bounds().MaxTTL
		if limit == nil || !r.Facts.TTLs().Empty() || r.OldFacts.TTLs().Empty() {
			return nil
		}
		removed := r.OldFacts.TTLs().Settings()[0]
		return []policy.Finding{{Field: removed.Path, Value: removed.Text, Severity: policy.Deny,
			Message: fmt.Sprintf("cannot be removed while %s is %s: set it to %s or less", limit.Path, limit.Text, limit.TTL)}}
	},
}
