// Package permission asks the API server what Curfew itself may do, and notices when that changes.
//
// [Reviews] asks for single permissions and for all that is granted in a namespace. [Ask] puts the
// answers of one round together, for any number of kinds. [Bindings] follows the roles that are
// bound to Curfew and says when to ask again, and where. [Cached] asks for the accounts of cleanup
// policies: for single permissions, once a minute.
package permission
