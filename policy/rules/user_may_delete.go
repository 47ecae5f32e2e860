package rules

import (
	"curfew.dev/curfew/policy"
)

// userMayDelete warns whoever sets a TTL on what they may not delete themselves; with RequireDelete it refuses. A TTL is a
// delete permission in disguise.
//
// Restricted fields: the native TTL, metadata.annotations[curfew.dev/ttl-after-*], metadata.labels[curfew.dev/ttl].
// Allowed: to users with the verb delete on the object.
var userMayDelete = Rule{
	Name: "user-may-delete",
	Review: func(r *Request) []policy.Finding {
		setting := SetsLifetime(r)
		if setting == nil || r.Access.User != No {
			return nil
		}
		finding := policy.Finding{Field: setting.Path, Value: setting.Text, Severity: policy.Warn,
			Message: "sets when this " + r.Facts.Profile.Kind.Kind + " is deleted, which you may not do yourself: ask for the verb delete"}
		if r.Options.RequireDelete {
			finding.Severity = policy.Deny
		}
		return []policy.Finding{finding}
	},
}
