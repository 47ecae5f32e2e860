package main

import (
	"testing"
	"time"

	"curfew.dev/curfew/test/harness"
)

func TestCompare(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	limit, err := memoryLimit(root)
	if err != nil || limit < 64<<20 {
		t.Fatalf("the limit is %d, %v", limit, err)
	}
	for name, c := range map[string]struct {
		without, with time.Duration
		peak          int64
		fails         bool
	}{
		"twice as late":      {2 * time.Second, 4 * time.Second, limit, false},
		"later":              {2 * time.Second, 4*time.Second + 1, 1, true},
		"hardly late at all": {time.Millisecond, leastP99, 1, false},
		"late":               {time.Millisecond, leastP99 + 1, 1, true},
		"too large":          {time.Second, time.Second, limit + 1, true},
	} {
		if err := compare(outcome{c.without, limit + 1}, outcome{c.with, c.peak}, limit); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
