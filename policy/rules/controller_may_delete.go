package rules

import (
	"cmp"
)

// controllerMayDelete warns that the controller lacks the permission to delete the object.
var controllerMayDelete = Rule{
	Name:   "controller-may-delete",
	Fields: permissionFields,
	Review: func(r *Request) {
		for sets, access := SetsLifetime(r), &r.Access; sets != nil && access != nil; sets, access = sets.Also, access.Also {
			if access.Controller != No {
				continue
			}
			kind := cmp.Or(sets.Of, r.Facts.Profile).Kind.Kind
			r.warn(sets.Path, sets.Text,
				"Curfew's controller lacks the permission to delete "+a(kind)+within(r.Facts)+": it stays until an admin grants that")
		}
	},
}
