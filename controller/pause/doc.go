// Package pause holds deletions and stops while a DeletionPause says so (S11).
//
// A [Gate] reads the DeletionPauses with a consistent LIST, several times a second while something
// is due. A read shows every pause that was accepted before it was sent. A request may therefore be
// sent if the newest read was sent less than a second ago and shows no pause that names it. The
// reads overlap, and all requests share them. While they fail, everything is held: nobody knows
// whether there is a pause.
//
// The engine asks [Gate.View] before it gives work to a worker, so that what is held costs nothing.
// The check that counts is in the transport of all clients ([Gate.Wrap]): the engine marks the
// context of an attempt ([With]), and each writing request of it is checked when its connection is
// ready, the last moment before it is sent. A DELETE without a mark is held by every pause.
package pause
