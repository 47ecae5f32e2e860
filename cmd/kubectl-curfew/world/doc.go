// Package world reads from the API server, as the user, everything that decides when an object
// expires, and has package policy decide. It needs no service of Curfew.
//
// [Open] reads the controller's settings, whether it runs, and profiles and policies (open.go). The
// embedded cluster reads kinds and objects, and asks for permissions (read.go, kinds.go,
// selection.go, access.go). [World.EachOf] reads the objects of a kind that can expire, in pages
// and as narrowly as the query allows (world.go). [World.Explain] gathers the context of one object
// and explains it. [World.Entries] reduces an explanation to the expiry, the deadline and the
// obstacles (entries.go, obstacles.go), and [World.Follow] adds the objects that are deleted first
// (cascade.go).
//
// What the user may not read is never guessed: [World.Notes] names it, and what that means for the
// answer.
package world
