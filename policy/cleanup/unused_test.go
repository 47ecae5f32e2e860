package cleanup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Only 1m to 365d can be written. The message names the field, the value and the fix.
func TestMinUnusedBounds(t *testing.T) {
	for value, want := range map[string]string{
		"1m": "", "60": "", "14d": "", "2w": "", "365d": "",
		"59s": "write at least 1m", "0": "write at least 1m", "366d": "write at most 365d", "52w2d": "write at most 365d",
		"-1d": "negative", "": "is empty", "soon": "use seconds", "never": "use seconds", "2026-12-24": "is a date", "1.5s": "whole",
		"99999999999w": "at most", strings.Repeat("1", 64): "63",
	} {
		t.Run(value, func(t *testing.T) {
			object := &v1alpha1.ClusterCleanupPolicy{}
			object.Spec.Schedule, object.Spec.MinUnused = "0 2 * * *", new(v1alpha1.Duration(value))
			object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}}}
			_, errs := cleanup.Compile(expression.NewCompiler(1), object)
			switch {
			case want == "" && len(errs) > 0:
				t.Error(errs)
			case want != "" && (len(errs) != 1 || errs[0].Field != "spec.minUnused" || !strings.Contains(errs[0].Error(), want)):
				t.Errorf("%v, want spec.minUnused: %s", errs, want)
			}
		})
	}
}

// unusedRun is a run of a policy that an object matches; ended is when it ends.
func unusedRun(t *testing.T, p *cleanup.Policy, before cleanup.Matched, instant, ended time.Time) (cleanup.Decision, *v1alpha1.CleanupMatches, [][]byte) {
	t.Helper()
	matches := p.NewMatches(before, instant)
	must(t, matches.Add("1"))
	matches.Again()
	enough := matches.Enough()
	decision := p.Awaits(matches, "1")
	if (decision.Verdict == cleanup.Delete) != (enough == 1) {
		t.Errorf("%d objects are to be deleted, and the decision is %+v", enough, decision)
	}
	text := matches.Encode(ended)
	due, _ := p.Schedule.Latest(instant.AddDate(-1, 0, 0), instant)
	return decision, &v1alpha1.CleanupMatches{Run: "r", ScheduledTime: metav1.NewTime(due), SpecHash: p.Hash, Pages: 1, SHA256: cleanup.SumMatches(text)}, [][]byte{text}
}

// An object is deleted once minUnused has passed between the end of the first run that matched it
// and the start of the present one. A run that ends within a minute counts from its scheduled time.
func TestMinUnusedIsCounted(t *testing.T) {
	first := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		spec    string
		took    time.Duration
		started time.Duration // after the run of the third day was due
		deleted bool
		message string
	}{
		"on time":             {spec: "minUnused: 2d", took: 59 * time.Second, deleted: true},
		"a long first run":    {spec: "minUnused: 2d", took: time.Minute, started: 59 * time.Second, message: "unused since 2026-12-01T02:01:00Z, deleted at about 2026-12-04T02:00:00Z: see minUnused"},
		"and a later third":   {spec: "minUnused: 2d", took: time.Minute, started: time.Minute, deleted: true},
		"a second too short":  {spec: "minUnused: 172801s", message: "unused since 2026-12-01T02:00:00Z, deleted at about 2026-12-04T02:00:00Z: see minUnused"},
		"long enough for one": {spec: "minUnused: 2d, consecutiveRuns: 4", message: "matched in 3 of 4 runs in a row: see consecutiveRuns"},
		"enough runs for one": {spec: "minUnused: 3d, consecutiveRuns: 3", message: "unused since 2026-12-01T02:00:00Z, deleted at about 2026-12-04T02:00:00Z: see minUnused"},
		"for both":            {spec: "minUnused: 2d, consecutiveRuns: 3", deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "{schedule: '0 2 * * *', "+c.spec+"}")
			var before cleanup.Matched
			for day := range 3 {
				instant := first.AddDate(0, 0, day)
				ended := instant.Add(c.took)
				if day == 2 {
					instant = instant.Add(c.started)
				}
				decision, left, pages := unusedRun(t, p, before, instant, ended)
				if day == 2 && ((decision.Verdict == cleanup.Delete) != c.deleted || decision.Message != c.message) {
					t.Errorf("%+v", decision)
				}
				if day < 2 && decision.Verdict == cleanup.Delete {
					t.Errorf("deleted on day %d", day+1)
				}
				var err error
				if before, err = p.ReadMatched(left, first.AddDate(0, 0, day+1), pagesOf(pages)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A clock that was ahead, or is set back, makes no object older.
func TestMinUnusedAndAWrongClock(t *testing.T) {
	first := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	p := compile(t, "{schedule: '0 2 * * *', minUnused: 1d}")
	_, left, pages := unusedRun(t, p, nil, first, first.AddDate(0, 0, 3)) // It ended in the future.
	before, err := p.ReadMatched(left, first.AddDate(0, 0, 1), pagesOf(pages))
	if err != nil || len(before) != 1 {
		t.Fatalf("%v: %v", before, err)
	}
	decision, left, pages := unusedRun(t, p, before, first.AddDate(0, 0, 1), first.AddDate(0, 0, 1))
	if want := first.AddDate(0, 0, 2); decision.Reason != cleanup.SkipUnused || !decision.Until.Equal(want) {
		t.Errorf("after the clock was ahead: %+v, want until %s", decision, want)
	}
	if before, err = p.ReadMatched(left, first.AddDate(0, 0, 2), pagesOf(pages)); err != nil {
		t.Fatal(err)
	}
	if decision, _, _ = unusedRun(t, p, before, first.AddDate(0, 0, 2), first); decision.Verdict != cleanup.Delete {
		t.Errorf("a day later: %+v", decision)
	}
}

// Whatever may be wrong with the record, each object is unused since now (S6).
func TestMinUnusedWithoutARecord(t *testing.T) {
	const spec = "{schedule: '0 2 * * *', minUnused: %s}"
	first := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	p := compile(t, fmt.Sprintf(spec, "1d"))
	for name, c := range map[string]struct {
		of      *cleanup.Policy
		edit    func(*v1alpha1.CleanupMatches, [][]byte)
		days    int
		deleted bool
	}{
		"usable":              {deleted: true},
		"a missed run":        {days: 1},
		"a shorter minUnused": {of: compile(t, fmt.Sprintf(spec, "12h"))},
		"a dry run before":    {of: compile(t, fmt.Sprintf(spec, "1d, dryRun: true"))},
		"another match":       {of: compile(t, fmt.Sprintf(spec, "1d, includeOwned: true"))},
		"suspended between":   {of: compile(t, fmt.Sprintf(spec, "1d, suspend: true")), deleted: true},
		"an earlier time":     {edit: func(_ *v1alpha1.CleanupMatches, pages [][]byte) { pages[0][cleanup.MatchSize]-- }},
		"an empty page":       {edit: func(_ *v1alpha1.CleanupMatches, pages [][]byte) { pages[0] = nil }},
		"half an object": {edit: func(m *v1alpha1.CleanupMatches, pages [][]byte) {
			pages[0] = pages[0][:cleanup.MatchSize]
			m.SHA256 = cleanup.SumMatches(pages[0])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, left, pages := unusedRun(t, p, nil, first, first)
			if c.edit != nil {
				c.edit(left, pages)
			}
			policy := c.of
			if policy == nil {
				policy = p
			}
			instant := first.AddDate(0, 0, 1+c.days)
			before, err := policy.ReadMatched(left, instant, pagesOf(pages))
			must(t, err)
			decision, _, _ := unusedRun(t, policy, before, instant, instant)
			if got := decision.Verdict == cleanup.Delete; got != c.deleted {
				t.Errorf("%+v", decision)
			}
		})
	}
}

// Without a run that remembers, nothing has matched. An object without a UID never matches.
func TestMinUnusedOfNothing(t *testing.T) {
	p := compile(t, "{schedule: '0 2 * * *', minUnused: 1d}")
	if decision := p.Awaits(nil, "1"); decision.Verdict != cleanup.Skip {
		t.Errorf("without matches: %+v", decision)
	}
	matches := p.NewMatches(nil, now)
	for _, uid := range []types.UID{"", "other"} {
		if decision := p.Awaits(matches, uid); decision.Reason != cleanup.SkipUnused {
			t.Errorf("%q: %+v", uid, decision)
		}
	}
}
