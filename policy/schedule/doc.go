// Package schedule computes the run times of a cleanup policy: 5-field cron in an IANA time zone.
//
// [Parse] reads the fields with the parser that Kubernetes' CronJob uses. A calendar finds the next
// wall-clock time that matches the fields, and knows nothing of time zones. [Schedule] turns that
// into an instant.
//
// The package does not use the parser's own search for the next run. That search runs `0 2 * * *`
// twice when 02:00 is repeated, not at all when it is skipped, and gives up after five years.
//
// # Changes of the clock
//
// A run is due when the wall clock first reaches or passes its time. So a time that the clock skips
// runs once, right after the gap, together with everything else that was skipped. A time that the
// clock repeats runs the first time only.
//
// A schedule that runs in every hour of the day instead follows the clock as it shows: it has
// nothing to make up for in a skipped hour, and runs in both copies of a repeated one. `*/2` in the
// hour field does not name every hour, so each of its times runs once.
package schedule
