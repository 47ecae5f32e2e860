// Package moment reads instants and spans of time as people type them on a command line: "17:00", "friday 17:00", "tomorrow noon",
// "in 6h", "2026-12-24", "now..friday", "may".
//
// The grammar is small and strict. Libraries for natural language take what they understand of a text and pass over the rest, so
// that "february 30" and "friday 13pm" come to some instant; what is asked here may be followed by a deletion. So every word has to
// have its place, and what can mean two instants ("next friday", an hour that the clocks repeat) is refused with what to write
// instead. [Parse] reads an instant, [ParseSpan] a span (A..B) and [ParsePeriod] a period of the calendar, all against an instant
// whose time zone is that of the user.
package moment
