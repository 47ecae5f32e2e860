package rules

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// userMayDelete warns a user who sets a TTL on an object that they may not delete; with
// --require-delete it denies. Any other way to have Curfew delete an object counts too: removing
// the protection of one that is due, writing its finish time, and a runtime's TTL.
var userMayDelete = Rule{
	Name:   "user-may-delete",
	Fields: permissionFields,
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
