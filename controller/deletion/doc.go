// Package deletion sends the requests that delete and stop objects, and decides whether one may be
// sent now. It is the only package of the controller that deletes objects of users.
//
// An [Action] makes one attempt at an object that is due, and returns one [Answer]. It never
// judges, waits or retries. [DeleteAction] is the action of TTLs, labels and cleanup: one DELETE
// with the UID and the resourceVersion of the state that was judged, so that no other object and no
// other state is deleted (S1, S2). Objects and aggregated APIs that cannot honour a resourceVersion
// are deleted by UID alone, right after a live read (DESIGN, section 4.2). Package
// controller/stop is the action of deadlines.
//
// [Client] writes its requests by hand and reads only the bodies of errors: when Curfew drains a
// backlog, a client that spends CPU on encoding takes it from the API server on the same machine.
//
// A [Gate] holds requests while a DeletionPause names them (S11), while the rules are not confirmed
// (S12), and on a replica that does not lead. It reads the DeletionPauses with a consistent LIST,
// once a second while something is due. A read shows every pause that was accepted before it was
// sent, so a request may be sent if the newest read was sent less than 4.5 seconds ago and shows no
// pause that names it. Reads overlap, so that slow answers hold nothing, and all requests share
// them. While they fail, the gate holds every request. The check that counts is in the transport of
// all clients ([Gate.Wrap]): an attempt marks its context ([WithMark]), and the transport checks
// each of its writing requests when the connection is ready, the last moment before it is sent.
// Every pause holds a DELETE without a mark.
//
// [Concurrency] finds how many requests to send at a time, [Rate] bounds how many deletions happen
// in a minute, [Skew] estimates the API server's clock from the Date header of its answers, and
// [ServerTime] gives the time to stamp objects with.
package deletion
