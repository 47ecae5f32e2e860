package cleanup_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// left is what a run of a policy leaves for the next one, in pages of a few bytes.
func left(p *cleanup.Policy, matches *cleanup.Matches) (*v1alpha1.CleanupMatches, [][]byte) {
	text := matches.Encode(now)
	out := &v1alpha1.CleanupMatches{Run: "r", ScheduledTime: metav1.NewTime(now), SpecHash: p.Hash, SHA256: cleanup.SumMatches(text)}
	var pages [][]byte
	for len(text) > 0 {
		size := min(len(text), 2*cleanup.MatchSize)
		pages, text = append(pages, text[:size]), text[size:]
	}
	out.Pages = int32(len(pages))
	return out, pages
}

func pagesOf(pages [][]byte) func(int32) ([]byte, error) {
	return func(number int32) ([]byte, error) { return pages[number-1], nil }
}

// An object has matched in as many runs in a row as have added and confirmed it, and have not
// forgotten it.
func TestMatchesAgainstCounting(t *testing.T) {
	p := compile(t, "{schedule: '0 2 * * *', consecutiveRuns: 3}")
	rapid.Check(t, func(t *rapid.T) {
		want, before := map[types.UID]int{}, cleanup.Matched(nil)
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			matches, longest := p.NewMatches(before, now), int64(0)
			passes := rapid.SliceOfN(rapid.IntRange(0, 4), 7, 7).Draw(t, "passes")
			for i, pass := range passes {
				uid := types.UID(fmt.Sprint(i))
				for range min(pass, 2) { // A list may show an object twice.
					if err := matches.Add(uid); err != nil {
						t.Fatal(err)
					}
				}
				if pass > 0 && want[uid] >= 2 {
					longest++
				}
			}
			if got := matches.Enough(); got != longest {
				t.Fatalf("%d objects, want %d", got, longest)
			}
			stalled := rapid.Bool().Draw(t, "stalled")
			if !stalled {
				matches.Again()
			}
			for i, pass := range passes {
				uid := types.UID(fmt.Sprint(i))
				if want[uid]++; pass == 0 {
					want[uid] = 0
				}
				if stalled { // There is no second pass.
					continue
				}
				if pass < 4 {
					if got := matches.Confirm(uid); got != want[uid] {
						t.Fatalf("%s matched in %d runs in a row, want %d", uid, got, want[uid])
					}
				}
				if pass == 3 {
					matches.Forget(uid)
				}
				if pass >= 3 {
					want[uid] = 0
				}
			}
			status, pages := left(p, matches)
			var err error
			if before, err = p.ReadMatched(status, now.AddDate(0, 0, 1), pagesOf(pages)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Whatever may be wrong with what the run before has left, nothing counts as matched (S6).
func TestMatchesThatCannotBeUsed(t *testing.T) {
	const spec = "{schedule: '0 2 * * *', consecutiveRuns: 2%s}"
	p := compile(t, fmt.Sprintf(spec, ""))
	matches := p.NewMatches(nil, now)
	for i := range 5 {
		must(t, matches.Add(types.UID(fmt.Sprint(i))))
	}
	for name, c := range map[string]struct {
		of   *cleanup.Policy
		edit func(*v1alpha1.CleanupMatches, [][]byte)
		days int
		want int
	}{
		"usable":            {want: 1},
		"a changed policy":  {of: compile(t, fmt.Sprintf(spec, ", includeOwned: true"))},
		"a missed run":      {days: 2},
		"the same run":      {days: 0 - 1},
		"a later run":       {edit: func(m *v1alpha1.CleanupMatches, _ [][]byte) { m.ScheduledTime = metav1.NewTime(now.AddDate(0, 0, 1)) }},
		"a lost page":       {edit: func(_ *v1alpha1.CleanupMatches, pages [][]byte) { pages[1] = nil }},
		"a longer page":     {edit: func(_ *v1alpha1.CleanupMatches, pages [][]byte) { pages[2] = append(pages[2], pages[2]...) }},
		"a higher count":    {edit: func(_ *v1alpha1.CleanupMatches, pages [][]byte) { pages[0][cleanup.MatchSize-1] = 9 }},
		"exchanged pages":   {edit: func(_ *v1alpha1.CleanupMatches, pages [][]byte) { pages[0], pages[1] = pages[1], pages[0] }},
		"fewer pages":       {edit: func(m *v1alpha1.CleanupMatches, _ [][]byte) { m.Pages-- }},
		"another policy":    {of: func() *cleanup.Policy { other := *p; other.UID = "other"; return &other }()},
		"no hash":           {of: func() *cleanup.Policy { other := *p; other.Hash = ""; return &other }(), edit: func(m *v1alpha1.CleanupMatches, _ [][]byte) { m.SpecHash = "" }},
		"suspended between": {of: compile(t, fmt.Sprintf(spec, ", suspend: true")), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			status, pages := left(p, matches)
			if c.edit != nil {
				c.edit(status, pages)
			}
			policy, days := c.of, c.days
			if policy == nil {
				policy = p
			}
			if days == 0 {
				days = 1
			}
			before, err := policy.ReadMatched(status, now.AddDate(0, 0, max(0, days)), pagesOf(pages))
			must(t, err)
			next := policy.NewMatches(before, now)
			for i := range 5 {
				uid := types.UID(fmt.Sprint(i))
				must(t, next.Add(uid))
				if got := next.Confirm(uid); got != c.want+1 {
					t.Errorf("object %d matched in %d runs, want %d", i, got, c.want+1)
				}
			}
		})
	}
	status, _ := left(p, matches)
	failed := errors.New("busy")
	if _, err := p.ReadMatched(status, now.AddDate(0, 0, 1), func(int32) ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("a page that cannot be read now: %v", err)
	}
	if before, err := p.ReadMatched(nil, now, nil); before != nil || err != nil {
		t.Errorf("a first run: %v, %v", before, err)
	}
}

// A status that names endless pages ends with the first that is missing, or with more than can be
// left.
func TestMatchesOnPagesThatAreMissing(t *testing.T) {
	p := compile(t, "{schedule: '0 2 * * *', consecutiveRuns: 2}")
	left := &v1alpha1.CleanupMatches{Run: "r", ScheduledTime: metav1.NewTime(now), SpecHash: p.Hash, Pages: math.MaxInt32}
	for _, page := range [][]byte{nil, make([]byte, 90_000)} {
		read := 0
		before, err := p.ReadMatched(left, now.AddDate(0, 0, 1), func(int32) ([]byte, error) {
			if read++; read > 20 {
				return nil, errors.New("it reads on and on")
			}
			return page, nil
		})
		if err != nil || before != nil {
			t.Errorf("%v after %d pages", err, read)
		}
	}
}

// Objects without a UID cannot be told apart, and never count. Too many objects are an error.
func TestMatchesThatDoNotCount(t *testing.T) {
	p := compile(t, "{consecutiveRuns: 2}")
	matches := p.NewMatches(nil, now)
	if err := matches.Add(""); err != nil || matches.Confirm("") != 0 {
		t.Errorf("without a UID: %v, %d runs", err, matches.Confirm(""))
	}
	var none *cleanup.Matches
	if none.Forget("1"); none.Confirm("1") != 0 {
		t.Error("an object matched before all are counted")
	}
	for i := range cleanup.MaxMatched {
		must(t, matches.Add(types.UID(fmt.Sprint(i))))
	}
	if err := matches.Add("1"); err != nil {
		t.Errorf("the same object again: %v", err)
	}
	if err := matches.Add("one more"); !errors.Is(err, cleanup.ErrTooManyMatched) || !strings.Contains(err.Error(), fmt.Sprint(cleanup.MaxMatched)) {
		t.Errorf("one more: %v", err)
	}
	// A count beyond what a byte holds stays where it is.
	before := cleanup.Matched(nil)
	for day := range 300 {
		matches = p.NewMatches(before, now)
		must(t, matches.Add("1"))
		if got := matches.Confirm("1"); got != min(day+1, 255) {
			t.Fatalf("%d runs after %d", got, day+1)
		}
		status, pages := left(p, matches)
		var err error
		status.ScheduledTime = metav1.NewTime(p.Schedule.Next(now))
		if before, err = p.ReadMatched(status, p.Schedule.Next(status.ScheduledTime.Time), pagesOf(pages)); err != nil {
			t.Fatal(err)
		}
	}
}
