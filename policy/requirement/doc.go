// Package requirement keeps an older Curfew from running an object without a safeguard that only a
// newer Curfew knows. fields.txt lists each field of a spec, and each value of an enumerated one,
// with the first version that knows it.
//
// [Unmet] reports what this version would drop. There are two ways to lose a field in a rollback:
//
//   - The newer CustomResourceDefinitions stay. The spec then has a field or value that fields.txt
//     does not list.
//   - The older CustomResourceDefinitions return as well. The API server then drops the field from
//     all that it answers, and from what it stores at the next write. So the controller records in
//     condition Requires which newer fields a generation of the spec uses ([Table.Record]). A
//     recorded field that the spec of this generation lacks is lost.
//
// An edit does not end the hold of an older version, as its author may not know what was lost. The
// older version moves the record to the new generation, so that the newer one holds the object as
// well until its spec is changed again. A user ends the hold by upgrading Curfew, or by creating
// the object again. Only the controller writes conditions (manifests/rbac/status.yaml), so that a
// tenant can neither forge nor remove a record.
//
// Not recorded: DeletionPauses. An older Curfew that drops a field of a pause pauses more.
package requirement
