package cleanup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy/cleanup"
)

// Whatever the order of the objects: of each group the newest count objects are kept, and no other.
func TestNewestAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 4).Draw(t, "count")
		type one struct {
			at  time.Time
			uid types.UID
		}
		groups := map[string][]one{}
		newest := cleanup.NewNewest(count)
		for i := range rapid.IntRange(0, 30).Draw(t, "objects") {
			group := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
			instant := now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "at")) * time.Hour)
			uid := types.UID(fmt.Sprintf("%02d", i))
			groups[group] = append(groups[group], one{instant, uid})
			if err := newest.Add(group, instant, uid, i%2 == 0); err != nil {
				t.Fatal(err)
			}
		}
		for group, all := range groups {
			slices.SortFunc(all, func(a, b one) int {
				if c := b.at.Compare(a.at); c != 0 {
					return c
				}
				return -compareUIDs(a.uid, b.uid)
			})
			for i, x := range all {
				if kept := newest.Keeps(group, x.at, x.uid); kept != (i < count) {
					t.Fatalf("group %s: number %d of %d is kept: %v", group, i+1, len(all), kept)
				}
			}
		}
	})
}

func compareUIDs(a, b types.UID) int {
	if a < b {
		return -1
	}
	return 1
}

// What was created, or matched for the first time, after the first pass is kept.
func TestNewestKeepsWhatItHasNotSeen(t *testing.T) {
	newest := cleanup.NewNewest(2)
	for i := range 4 {
		must(t, newest.Add("a", now.Add(time.Duration(i)*time.Hour), types.UID(fmt.Sprint(i)), true))
	}
	for name, c := range map[string]struct {
		group string
		at    time.Time
		want  bool
	}{
		"a newer one":       {"a", now.Add(9 * time.Hour), true},
		"another group":     {"b", now, true},
		"older than it all": {"a", now.Add(-time.Hour), false},
	} {
		if got := newest.Keeps(c.group, c.at, "new"); got != c.want {
			t.Errorf("%s is kept: %v, want %v", name, got, c.want)
		}
	}
}

func TestNewestIsBounded(t *testing.T) {
	newest := cleanup.NewNewest(10)
	for i := range cleanup.MaxRemembered + 1 {
		err := newest.Add(fmt.Sprint(i), now, "u", true)
		if (err != nil) != (i == cleanup.MaxRemembered) {
			t.Fatalf("object %d: %v", i, err)
		}
	}
}

func TestAllowance(t *testing.T) {
	for name, c := range map[string]struct {
		spec         string
		matched, all int64
		want         int64 // -1: an error
		deleted      int64
	}{
		"no limit":            {"{}", 1000, 1000, 1000, 0},
		"at the limit":        {"{maxDeletions: 10}", 10, 1000, 10, 0},
		"above":               {"{maxDeletions: 10}", 11, 1000, -1, 0},
		"above, truncated":    {"{maxDeletions: 10, onExceed: Truncate}", 11, 1000, 10, 0},
		"more percent":        {"{maxPercentage: 10}", 101, 1000, -1, 0},
		"percent, truncated":  {"{maxPercentage: 10, onExceed: Truncate}", 101, 1000, 100, 0},
		"rounded down":        {"{maxPercentage: 10}", 1, 9, -1, 0},
		"the smaller of both": {"{maxPercentage: 10, maxDeletions: 50, onExceed: Truncate}", 101, 1000, 50, 0},
		"nothing matches":     {"{maxPercentage: 1}", 0, 0, 0, 0},
		"goes on with more":   {"{maxDeletions: 10}", 5, 1000, -1, 6},
		"goes on, truncated":  {"{maxDeletions: 10, onExceed: Truncate}", 5, 1000, 4, 6},
		"goes on, done":       {"{maxDeletions: 10, onExceed: Truncate}", 5, 1000, 0, 12},
		"goes on by percent":  {"{maxPercentage: 75}", 1, 2, 1, 2},
		"more than that":      {"{maxPercentage: 75}", 2, 2, -1, 2},
		"less than nothing":   {"{maxDeletions: 1, onExceed: Truncate}", 5, 10, 1, -1_000_000},
	} {
		got, err := compile(t, c.spec).Allowance(c.matched, c.all, c.deleted)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s: %d (%v), want %d", name, got, err, c.want)
		}
	}
	_, err := compile(t, "{maxDeletions: 10}").Allowance(5, 100, 6)
	if err == nil || !strings.Contains(err.Error(), "11 objects match, and spec.maxDeletions is 10: 6 were deleted before, and no more; raise") {
		t.Error(err)
	}
}
