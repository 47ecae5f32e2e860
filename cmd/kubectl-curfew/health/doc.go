// Package health checks an installation of Curfew, as the user may read it, for kubectl curfew
// status.
//
// [Run] makes each [Check], one file for a part of Curfew. A check that the user may not make is
// Unknown, and a note says what that hides: nothing is reported as healthy that was not read.
package health
