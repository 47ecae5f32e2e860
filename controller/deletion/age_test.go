package deletion

import (
	"testing"
	"time"

	"curfew.dev/curfew/test/builders"
)

// TestAgeAfterASleep: a machine that slept, or whose clock was set, makes nothing younger.
func TestAgeAfterASleep(t *testing.T) {
	now := time.Now()
	before := now.Add(-time.Second)
	for name, test := range map[string]struct {
		since time.Time
		want  time.Duration
	}{
		"nothing happened":         {before, time.Second},
		"the machine slept":        {builders.Slept(before, time.Minute), time.Minute + time.Second},
		"the clock was set back":   {builders.Slept(before, -time.Minute), time.Second},
		"without a monotonic time": {before.Round(0), time.Second},
	} {
		if age := Age(now, test.since); age != test.want {
			t.Errorf("%s: %s, want %s", name, age, test.want)
		}
	}
	if slept := builders.Slept(before, time.Minute); now.Sub(slept) != time.Second {
		t.Errorf("the monotonic clock went on by %s", now.Sub(slept))
	}
}
