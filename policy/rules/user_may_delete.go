package rules

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// userMayDelete warns a user who sets a TTL on an object that they may not delete; with
// --require-delete it denies. Any other way to have Curfew delete an object counts too: removing
// the protection of one that is due, writing its finish time, and a runtime's TTL.
var userMayDelete = Rule{
	Name:   "user-may-delete",
	Fields: permissionFields,
	Review: func(r *Request) {
		for sets, access := SetsLifetime(r), &r.Access; sets != nil && access != nil; sets, access = sets.Also, access.Also {
			if access.User != No {
				continue
			}
			verb, of := "the verb delete", cmp.Or(sets.Of, r.Facts.Profile)
			if of.Resource != "" {
				verb += " on " + schema.GroupResource{Group: of.Kind.Group, Resource: of.Resource}.String()
			}
			r.add(r.Options.unlessRequired(), sets.Path, sets.Text,
				sets.does+", but you may not delete it yourself: ask for "+verb+within(r.Facts))
		}
	},
}
