package rules

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// userMayDelete warns anyone who sets a TTL on what they may not delete themselves; with RequireDelete it denies. A TTL is a
// delete permission in disguise, and so is everything else that has Curfew delete an object: taking the protection from one that
// is due, writing down when it finished, and the TTL of a runtime.
//
// Restricted fields: the native TTL, metadata.annotations[curfew.dev/ttl-after-*, protect, finished-at],
// metadata.labels[curfew.dev/ttl]. Allowed: to users with the verb delete on the object, or on what uses the runtime.
var userMayDelete = Rule{
	Name: "user-may-delete",
	Review: func(r *Request) []policy.Finding {
		sets := SetsLifetime(r)
		if sets == nil || r.Access.User != No {
			return nil
		}
		verb := "the verb delete"
		if sets.Of != nil {
			verb += " on " + schema.GroupResource{Group: sets.Of.Kind.Group, Resource: sets.Of.Resource}.String()
		}
		finding := policy.Finding{Field: sets.Path, Value: sets.Text, Severity: policy.Warn,
			Message: sets.does + ", which you may not do yourself: ask for " + verb}
		if r.Options.RequireDelete {
			finding.Severity = policy.Deny
		}
		return []policy.Finding{finding}
	},
}
