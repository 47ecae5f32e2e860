package rules

import (
	"curfew.dev/curfew/policy"
)

// controllerMayDelete warns of a TTL that will not be carried out, because Curfew has not been given the permission.
//
// Fields: the native TTL, metadata.annotations[curfew.dev/ttl-after-*], metadata.labels[curfew.dev/ttl].
var controllerMayDelete = Rule{
	Name: "controller-may-delete",
	Review: func(r *Request) []policy.Finding {
		sets := SetsLifetime(r)
		if sets == nil || r.Access.Controller != No {
			return nil
		}
		kind := r.Facts.Profile.Kind.Kind
		if sets.Of != nil {
			kind = sets.Of.Kind.Kind
		}
		return []policy.Finding{{Field: sets.Path, Value: sets.Text, Severity: policy.Warn,
			Message: "Curfew's controller may not delete a " + kind + " here: it will stay until an admin grants that"}}
	},
}
