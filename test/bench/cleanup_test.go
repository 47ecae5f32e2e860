package main

import (
	"reflect"
	"testing"
	"time"
)

func TestSummarizeCleanup(t *testing.T) {
	all := []measurement{
		{Contestant: theLimit, PerSecond: 2000}, {Contestant: theCurfew, PerSecond: 1800}, {Contestant: theLimit, PerSecond: 1000}, {Contestant: theCurfew, PerSecond: 950},
	}
	got := map[string][2]float64{}
	for _, r := range summarizeCleanup(all, 100000, []float64{30, 34}) {
		got[r.Name] = [2]float64{r.Value, r.Ratio}
	}
	want := map[string][2]float64{"cleanup.drain.100k.vs_limit": {1375, 0.925}, "cleanup.memory.extra_mb": {32, 0.5}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got := summarizeCleanup(all[1:2], 100000, nil); len(got) != 0 {
		t.Errorf("got %v without the limit", got)
	}
}

// A run is due in a whole minute, and never before the instant that is asked for.
func TestCleanupIsDueInAWholeMinute(t *testing.T) {
	minute := time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC)
	for at, want := range map[time.Time]time.Time{
		minute: minute, minute.Add(time.Nanosecond): minute.Add(time.Minute), minute.Add(59 * time.Second): minute.Add(time.Minute),
	} {
		if got := (*cleaned)(nil).dueFrom(at); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
