// Package world reads from the API server, with the permissions of whoever asks, all that decides how long an object lives, and has
// package policy decide. No service of Curfew has to be reachable.
//
// [Open] reads what the platform says (platform.go: profiles and policies) and how the controller is set (controller.go).
// [World.Kinds] are the kinds whose objects can go (kinds.go). [World.List] reads their objects in pages, as narrowly as the question
// allows, [World.Watch] goes on from there, and [World.Explain] gathers the context of one object (source.go) and asks.
// [World.Entries] boils an explanation down to when the object goes, why, and what stands in the way.
//
// What may not be read is not guessed: it is noted, with what that means for the answer ([World.Notes]).
package world
