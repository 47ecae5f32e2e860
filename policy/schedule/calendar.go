package schedule

import (
	"math/bits"
	"time"
)

// star is the parser's mark of a field that was "*" or "?".
const star = 1 << 63

// maxGap is the longest time between two matching days: 29 February skips 2100.
const maxGap = 8

// minutesPerDay is also the number of minute-of-day values.
const minutesPerDay = 24 * 60

// calendar holds the values of each field as bits. Its times are wall-clock times, written as if
// they were in UTC.
type calendar struct {
	minute, hour, dom, month, dow uint64
	eitherDay                     bool
}

func newCalendar(fields [5]uint64) calendar {
	return calendar{
		minute: fields[0] &^ star, hour: fields[1] &^ star,
		dom: fields[2] &^ star, month: fields[3] &^ star, dow: fields[4] &^ star,
		eitherDay: fields[2]&star == 0 && fields[4]&star == 0,
	}
}

// everyHour reports whether the hour field matches all hours of the day.
func (c calendar) everyHour() bool { return bits.OnesCount64(c.hour) == 24 }

// next returns the first matching time after the given one, or the zero time.
func (c calendar) next(after time.Time) time.Time {
	start := after.Truncate(time.Minute).Add(time.Minute)
	day := midnight(start)
	if c.matches(day) {
		if minute, ok := c.minuteOfDay(int(start.Sub(day) / time.Minute)); ok {
			return day.Add(time.Duration(minute) * time.Minute)
		}
	}
	if day = c.nextDay(day); day.IsZero() {
		return day
	}
	first, _ := c.minuteOfDay(0)
	return day.Add(time.Duration(first) * time.Minute)
}

// nextDay returns the first matching day after the given one, or the zero time. It skips months
// that do not match, so it looks at a few thousand days at most.
func (c calendar) nextDay(day time.Time) time.Time {
	limit := day.AddDate(maxGap, 0, 1)
	for day = day.AddDate(0, 0, 1); !day.After(limit); {
		switch {
		case c.month&(1<<day.Month()) == 0:
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case c.matches(day):
			return day
		default:
			day = day.AddDate(0, 0, 1)
		}
	}
	return time.Time{}
}

// matches reports whether the policy runs on that day. As in every cron, two restricted day fields
// mean either of them.
func (c calendar) matches(day time.Time) bool {
	if c.month&(1<<day.Month()) == 0 {
		return false
	}
	dom, dow := c.dom&(1<<day.Day()) != 0, c.dow&(1<<day.Weekday()) != 0
	if c.eitherDay {
		return dom || dow
	}
	return dom && dow
}

// minuteOfDay returns the first matching minute of a day that is not before the given one.
func (c calendar) minuteOfDay(from int) (int, bool) {
	hour, minute := from/60, from%60
	if c.hour&(1<<hour) != 0 {
		if later, ok := bitFrom(c.minute, minute); ok {
			return hour*60 + later, true
		}
	}
	hour, ok := bitFrom(c.hour, hour+1)
	return hour*60 + bits.TrailingZeros64(c.minute), ok
}

// bitFrom returns the lowest bit that is set and not below the given one.
func bitFrom(set uint64, from int) (int, bool) {
	set = set >> from << from
	return bits.TrailingZeros64(set), set != 0
}

// minInterval returns the shortest wall-clock time between two runs, and 0 if there are no two.
func (c calendar) minInterval() time.Duration {
	first, _ := c.minuteOfDay(0)
	shortest, last := 0, first
	keep := func(minutes int) {
		if shortest == 0 || minutes < shortest {
			shortest = minutes
		}
	}
	for {
		next, ok := c.minuteOfDay(last + 1)
		if !ok {
			break
		}
		keep(next - last)
		last = next
	}
	if days := c.minDays(); days > 0 {
		keep(days*minutesPerDay - (last - first))
	}
	return time.Duration(shortest) * time.Minute
}

// minDays returns the shortest number of days from one matching day to the next. The calendar
// repeats after 400 years. Almost every schedule has its shortest distance within the first ones.
func (c calendar) minDays() int {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	shortest := 0
	for day := c.nextDay(start); !day.IsZero() && day.Year() <= 2400; {
		next := c.nextDay(day)
		days := int(next.Sub(day).Hours()) / 24
		if shortest == 0 || days < shortest {
			shortest = days
		}
		if shortest == 1 {
			break
		}
		day = next
	}
	return shortest
}

func midnight(wall time.Time) time.Time { return wall.Truncate(24 * time.Hour) }
