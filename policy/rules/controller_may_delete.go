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
		setting := SetsLifetime(r)
		if setting == nil || r.Access.Controller != No {
			return nil
		}
		return []policy.Finding{{Field: setting.Path, Value: setting.Text, Severity: policy.Warn,
			Message: "Curfew's controller may not delete a " + r.Facts.Profile.Kind.Kind + " here: it will stay until an admin grants that"}}
	},
}
