package rules

import (
	"curfew.dev/curfew/policy"
)

// controllerMayDelete warns that the controller lacks the permission to delete the object.
var controllerMayDelete = Rule{
	Name:   "controller-may-delete",
	Fields: permissionFields,
	Review: func(r *Request) []policy.Finding {
		sets := SetsLifetime(r)
		if sets == nil || r.Access.Controller != No {
			return nil
		}
		kind := r.Facts.Profile.Kind.Kind
		if sets.Of != nil {
			kind = sets.Of.Kind.Kind
		}
		return []policy.Finding{warning(sets.Path, sets.Text, "Curfew's controller lacks the permission to delete a "+kind+within(r.Facts)+": it stays until an admin grants that")}
	},
}
