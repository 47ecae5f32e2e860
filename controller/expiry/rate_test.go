package expiry

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// No window of a minute ever holds more than the limit, and what is given back can be used again.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		r := rate{limit: limit}
		type taken struct {
			at    time.Duration
			slice int64
		}
		var all []taken
		now := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
			case 1:
				if n := len(all); n > 0 && rapid.Bool().Draw(t, "give back") {
					r.giveBack(all[n-1].slice, now)
					all = all[:n-1]
				}
			default:
				wait := r.wait(now)
				slice, ok := r.take(now)
				if ok != (wait == 0) {
					t.Fatalf("take %v, and the wait was %s", ok, wait)
				}
				if ok {
					all = append(all, taken{now, slice})
				}
				if wait > 61*time.Second {
					t.Fatalf("wait %s", wait)
				}
				if wait > 0 {
					if w := r.wait(now + wait); w != 0 {
						t.Fatalf("after waiting %s there is another wait of %s", wait, w)
					}
					now += wait
				}
			}
			n := 0
			for _, x := range all {
				if x.at > now-time.Minute {
					n++
				}
			}
			if n > limit {
				t.Fatalf("%d in a minute, limit %d", n, limit)
			}
		}
	})
}

func TestRateOff(t *testing.T) {
	var r rate
	for range 100_000 {
		if _, ok := r.take(0); !ok || r.wait(0) != 0 {
			t.Fatal("no limit, and yet refused")
		}
	}
}
