package expire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A DELETE without an answer may have been carried out, so it counts.
func TestMaxDeletionsPerMinuteWithoutAnswers(t *testing.T) {
	w, _, _ := ready(t, func(o *Options) { o.MaxDeletionsPerMinute = 10 })
	w.dueSoon(25, "j", nil)
	w.faults = []fault{{carriedOut: true}, {carriedOut: true}, {carriedOut: true}}
	w.after(time.Second)
	for range 57 {
		w.after(time.Second)
		if gone := 25 - len(w.things); gone > 10 {
			t.Fatalf("%d are gone within a minute", gone)
		}
	}
	w.every(4, 61*time.Second)
	if len(w.things) != 0 {
		t.Errorf("%d are left in the end", len(w.things))
	}
}

// Backfill has its own rate and delays no other deletions. Objects that a stamp alone claims to be
// backfilled yield to those that are, so that forged stamps do not use up the rate of a policy. They
// are deleted when nothing else needs it.
func TestClaimedBackfillYields(t *testing.T) {
	w, outcomes, _ := ready(t, func(o *Options) { o.BackfillPerMinute = 5 })
	for _, row := range []struct {
		prefix, source string
		expired        time.Duration
	}{{"claimed", "object", 2000 * time.Hour}, {"old", "policy/p", 1000 * time.Hour}} {
		w.dueSoon(8, row.prefix, func(o *Entry) { o.Backfill, o.Source, o.Expiry = true, row.source, epoch.Add(-row.expired) })
	}
	w.dueSoon(3, "new", nil)
	w.advance(time.Second)
	var got []string
	for range 4 {
		w.pump()
		counts := map[string]int{}
		for _, o := range *outcomes {
			counts[strings.TrimRight(o.Object.Name, "0123456789")]++
		}
		got, *outcomes = append(got, fmt.Sprint(counts)), nil
		w.advance(62 * time.Second)
	}
	if want := []string{"map[new:3 old:5]", "map[claimed:2 old:3]", "map[claimed:5]", "map[claimed:1]"}; !slices.Equal(got, want) {
		t.Errorf("deleted by the minute: %q, want %q", got, want)
	}
}

// They yield only to what may be begun: a namespace whose webhook hangs does not hold them up.
func TestClaimedBackfillYieldsToNoHangingNamespace(t *testing.T) {
	s := &tenants{answers: hang, slow: func(r Request) bool { return r.Namespace == "slow" }}
	s.change = func(o *Entry) {
		if o.Backfill = true; o.Namespace == "slow" {
			o.Source = "policy/p"
		}
	}
	among(t, Options{}, s, func(_ *Engine, track track) {
		track("Widget", "slow", 500, time.Now())
		track("Widget", "ci", 100, time.Now())
		pass(2 * time.Minute)
		if n, _ := s.worst(); n != 100 {
			t.Errorf("%d of 100 were deleted beside a namespace that hangs", n)
		}
	})
}

func TestRetryAfterPausesEverything(t *testing.T) {
	w, _, _ := ready(t, nil)
	w.dueSoon(10, "j", nil)
	for range 9 {
		w.faults = append(w.faults, fault{code: 429, retryAfter: 30 * time.Second})
	}
	w.after(time.Second)
	for n := breakerThreshold; n <= 9; n++ { // Fewer might be bad luck.
		if w.deletes != n {
			t.Fatalf("%d DELETEs although %d answers were: come again in 30s", w.deletes, n)
		}
		w.after(900 * time.Millisecond)
		if w.deletes != n {
			t.Fatalf("%d DELETEs 900ms after number %d", w.deletes, n)
		}
		w.after(100 * time.Millisecond)
	}
	w.advance(2 * time.Second) // The tenth was admitted.
	w.pump()
	if w.deletes != 19 {
		t.Errorf("%d DELETEs in the end, want 19", w.deletes)
	}
}

// Retries have no end, a wait of at least a second, and a bound.
func TestRetriesForEver(t *testing.T) {
	for _, code := range []int{403, 404, 422, 500, 0} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.dueSoon(1, "j", nil)
			w.advance(time.Second)
			last, longest := w.mono, time.Duration(0)
			for range 40 {
				w.faults = []fault{{code: code}}
				before := w.deletes
				for w.deletes == before {
					w.pump()
					if w.deletes > before {
						break
					}
					if w.advance(250 * time.Millisecond); w.mono-last > time.Hour {
						t.Fatal("it was not tried again within an hour")
					}
				}
				wait := w.mono - last
				if w.deletes > 1 && wait < time.Second {
					t.Fatalf("tried again after %s", wait)
				}
				last, longest = w.mono, max(longest, wait)
			}
			most := 5*time.Minute*13/10 + time.Minute
			if code == 500 || code == 0 {
				most = 30 * time.Second * 13 / 10
			}
			if longest > most {
				t.Errorf("the longest wait is %s, want at most %s", longest, most)
			}
			w.faults = nil
			w.after(10 * time.Minute)
			if len(w.things) != 0 {
				t.Error("forgotten")
			}
		})
	}
}
