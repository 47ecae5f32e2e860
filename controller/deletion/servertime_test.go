package deletion

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// S6: a stamp is never older than the API server's clock, and not much younger, however far the
// local clock is off.
func TestServerTimeIsNeverTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := time.Duration(rapid.IntRange(-7_200_000, 7_200_000).Draw(t, "skew ms")) * time.Millisecond
		clock := clocktesting.NewFakeClock(epoch.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "start µs")) * time.Microsecond))
		skew := NewSkew(clock)
		server := func() time.Time { return clock.Now().Add(-off) }
		times := NewServerTime(skew, func(context.Context) error {
			sent := clock.Now()
			clock.Step(time.Duration(rapid.IntRange(0, 50).Draw(t, "there ms")) * time.Millisecond)
			date := header(server())
			clock.Step(time.Duration(rapid.IntRange(0, 50).Draw(t, "back ms")) * time.Millisecond)
			skew.observe(skew.epoch, sent, clock.Now(), date)
			return nil
		})
		for range rapid.IntRange(1, 10).Draw(t, "stamps") {
			clock.Step(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "pause ms")) * time.Millisecond)
			got, err := times.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if late := got.Sub(server()); late < 0 || late > 1200*time.Millisecond {
				t.Fatalf("stamped %s after the server's time", late)
			}
		}
	})
}

// The time is held to be unknown, and not guessed, before the first answer, without an answer,
// after the clock was set and after the host slept.
func TestServerTimeIsUnknown(t *testing.T) {
	silent := errors.New("no answer")
	for name, test := range map[string]struct {
		// wall and mono is what passes since the last answer; zero for both means that there was
		// none.
		wall, mono time.Duration
		known      bool
	}{
		"no answer yet":             {},
		"a moment ago":              {wall: time.Second, mono: time.Second, known: true},
		"half a minute ago":         {wall: freshFor, mono: freshFor, known: true},
		"long ago":                  {wall: freshFor + time.Second, mono: freshFor + time.Second},
		"the clock was set back":    {wall: -time.Hour, mono: time.Second},
		"the clock was set forward": {wall: time.Hour, mono: time.Second},
		"the host slept":            {wall: time.Minute, mono: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(epoch)
			skew := NewSkew(clock)
			skew.elapsed = func(time.Time, time.Time) time.Duration { return test.mono }
			if test.wall != 0 {
				skew.observe(0, epoch, epoch, header(epoch))
				clock.SetTime(epoch.Add(test.wall))
			}
			got, err := NewServerTime(skew, func(context.Context) error { return silent }).Now(t.Context())
			if test.known != (err == nil) || err != nil && (!errors.Is(err, errNoServerTime) || !errors.Is(err, silent)) {
				t.Fatalf("%s, %v; want it known: %v", got, err, test.known)
			}
			if test.known && (got.Before(epoch.Add(test.mono)) || got.After(epoch.Add(test.mono+1100*time.Millisecond))) {
				t.Errorf("%s, want a second after %s at most", got, epoch.Add(test.mono))
			}
		})
	}
}
