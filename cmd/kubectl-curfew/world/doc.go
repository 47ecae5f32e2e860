// Package world reads from the API server, as the user, everything that decides when an object
// expires, and has package policy decide. It needs no service of Curfew.
//
// [Open] reads the controller's settings (controller.go), whether it runs (liveness.go,
// controller.go), and profiles and policies (world.go). [World.Kinds] are the kinds whose objects
// can expire (kinds.go). [World.List] reads their objects in pages, as narrowly as the query
// allows, and [World.Select] those that a user named (selection.go). [World.Explain] gathers the
// context of one object (read.go) and explains it. [World.Entries] reduces an explanation to the
// expiry, the deadline and what blocks them.
//
// What the user may not read is never guessed: [World.Notes] names it, and what that means for the
// answer.
package world
