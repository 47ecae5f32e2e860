package rules

import (
	"cmp"
	"strings"

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
			profile := cmp.Or(sets.Of, r.Facts.Profile)
			resource := schema.GroupResource{Group: profile.Kind.Group, Resource: cmp.Or(profile.Resource, strings.ToLower(profile.Kind.Kind))}
			r.add(r.Options.unlessRequired(), sets.Path, sets.Text,
				sets.does+", but you may not delete it yourself: ask for the verb delete on "+resource.String()+within(r.Facts))
		}
	},
}
