// Package deletion deletes the object that is due, with one DELETE.
//
// The DELETE carries the UID and the resourceVersion of the state that was judged, so that no other
// object and no other state is deleted (S1, S2). Objects and aggregated APIs that cannot honour a
// resourceVersion are deleted by UID alone, right after a live read (DESIGN, section 4.2).
//
// [Client] sends the requests. It writes them by hand and reads only the bodies of errors: when
// Curfew drains a backlog, a client that spends CPU on encoding takes it from the API server on the
// same machine.
package deletion
