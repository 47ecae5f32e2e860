// Package pause holds deletions and stops while a DeletionPause says so (S11).
//
// A [Gate] reads the DeletionPauses with a consistent LIST, once a second while something is due.
// A read shows every pause that was accepted before it was sent. A request may therefore be sent if
// the newest read was sent less than 4.5 seconds ago and shows no pause that names it. Reads overlap,
// so that slow answers hold nothing, and all requests share them. While they fail, the gate holds
// every request, since any of them may be paused. It also holds every request of a replica that does
// not lead.
//
// The engine asks [Gate.View] before it gives work to a worker, so that paused work costs nothing.
// The check that counts is in the transport of all clients ([Gate.Wrap]): the engine marks the
// context of an attempt ([With]), and the transport checks each writing request of it when its
// connection is ready, the last moment before it is sent. Every pause holds a DELETE without a
// mark.
package pause
