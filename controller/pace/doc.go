// Package pace decides how fast requests are sent: how many at a time, derived from the API
// server's answers ([Concurrency]), and how many deletions a minute ([Rate]).
//
// Neither holds a clock or a lock: callers pass monotonic time, and call from one goroutine at a
// time.
package pace
