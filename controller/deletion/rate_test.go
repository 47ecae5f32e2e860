package deletion

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// No window of a minute ever holds more than the limit, whenever between request and answer a
// deletion happens, and what did not happen makes room for another.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		r := Rate{Limit: limit}
		var sent, happened []time.Duration
		now := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
			case 1, 2:
				if len(sent) == 0 {
					break
				}
				did := rapid.Bool().Draw(t, "happened")
				if did {
					happened = append(happened, sent[0]+time.Duration(rapid.Int64Range(0, int64(now-sent[0])).Draw(t, "after")))
				}
				sent = sent[1:]
				r.Done(now, did)
			default:
				wait := r.Wait(now)
				ok := r.Take(now)
				if ok != (wait == 0) {
					t.Fatalf("take %v, and the wait was %s", ok, wait)
				}
				if ok {
					sent = append(sent, now)
				}
				if wait > 61*time.Second {
					t.Fatalf("wait %s", wait)
				}
				if wait > 0 {
					now += wait
					if w := r.Wait(now); w != 0 && len(sent) < limit {
						t.Fatalf("after waiting %s there is another wait of %s", wait, w)
					}
				}
			}
		}
		for _, from := range happened {
			n := 0
			for _, d := range happened {
				if d >= from && d < from+time.Minute {
					n++
				}
			}
			if n > limit {
				t.Fatalf("%d in the minute from %s on, limit %d", n, from, limit)
			}
		}
	})
}
