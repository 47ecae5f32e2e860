package moment

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWeekdaysInDoubt: next, this or last before a weekday is read on those days alone on which it can mean but one.
func TestWeekdaysInDoubt(t *testing.T) {
	for text, want := range map[string]string{
		"next tuesday":   "-|-|24|24|24|24|24", // of Sunday 15 to Saturday 21 November
		"next sunday":    "22|-|-|-|-|-|-",
		"this tuesday":   "-|17|17|-|-|-|-",
		"last tuesday":   "-|10|10|-|-|-|-",
		"next saturday":  "-|-|-|-|-|-|28",
		"past wednesday": "-|11|11|11|-|-|-",
	} {
		var have []string
		for date := 15; date <= 21; date++ {
			at, err := Parse(text, time.Date(2026, 11, date, 12, 0, 0, 0, berlin(t)))
			switch {
			case err == nil:
				have = append(have, at.Format("2"))
			case strings.Contains(err.Error(), `" may mean 2026-11-`):
				have = append(have, "-")
			default:
				t.Error(err)
			}
		}
		if got := strings.Join(have, "|"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzParse holds that whatever is read is an instant of some sense, that nothing of it was passed over, that it could not have been read
// in another way, and that a span lies in its order.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"friday 17:00", "in 6h", "now..friday", "24 december 2026, noon", "may", "9 am on mon", "2026-12-24T17:00:00+01:00",
		"1st jan..2 feb", "next tuesday at 5:30 pm", "in three hours", "2 days ago", "end of the month", "twenty-first of may"} {
		f.Add(text)
	}
	now := wednesday(f)
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := Parse(text, now); err == nil {
			if at.IsZero() || at.Location() != now.Location() {
				t.Errorf("%q: %v", text, at)
			}
			wholly(t, text, now)
		}
		for _, parse := range []func(string, time.Time) (Span, error){ParseSpan, ParsePeriod} {
			if span, err := parse(text, now); err == nil && !span.From.Before(span.To) {
				t.Errorf("%q: %v", text, span)
			}
		}
	})
}

// TestWordsTogether: of any three of these words, whatever is read is read whole.
func TestWordsTogether(t *testing.T) {
	vocabulary := strings.Fields("at on in end of next friday today now noon 5pm 9 am 24th may 2028 3 few hours ago")
	now, read := wednesday(t), 0
	for _, a := range vocabulary {
		for _, b := range append(vocabulary, "") {
			for _, c := range vocabulary {
				text := a + " " + b + " " + c
				if _, err := Parse(text, now); err == nil {
					read++
					wholly(t, text, now)
				}
			}
		}
	}
	if read < 50 {
		t.Errorf("%d were read", read)
	}
}

// wholly holds that each word of what can be read counts: with one more anywhere, or one twice, nobody could read it. And there is but
// one way to cut it into a day and a time of day.
func wholly(t *testing.T, text string, now time.Time) {
	t.Helper()
	parts := words(text)
	for i := range len(parts) + 1 {
		for _, more := range append([]string{"please", "not", "x"}, parts[max(i-1, 0):i]...) {
			longer := strings.Join(slices.Insert(slices.Clone(parts), i, more), " ")
			if at, err := Parse(longer, now); err == nil {
				t.Errorf("%q was read as %s, and so was %q", text, at, longer)
			}
		}
	}
	r, ways := reader{now: now, against: now}, 0
	for of, hour := range cuts(parts) {
		if _, ok, err := r.dayAndClock(of, hour); ok && err == nil {
			ways++
		}
	}
	if ways > 1 {
		t.Errorf("%q can be read in %d ways", text, ways)
	}
}
