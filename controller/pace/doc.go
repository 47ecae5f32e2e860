// Package pace decides how fast requests are sent: how many at a time, from what the API server
// answers ([Concurrency]), and how many deletions a minute ([Rate]).
//
// Neither holds a clock or a lock: callers pass monotonic time, and call from one goroutine at a
// time.
package pace
