package console

import (
	"fmt"
	"strconv"
	"time"
)

// Where is file:line, as editors and terminals understand it.
func Where(file string, line int) string {
	file = OrDash(file)
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// Instant is a time with its zone: 2026-11-20 17:00:00 CET.
func Instant(at time.Time, zone *time.Location) string {
	if at.IsZero() {
		return "-"
	}
	return at.In(zone).Format("2006-01-02 15:04:05 MST")
}

// Left is the time until an instant in two units, such as 3d4h, 45s or overdue 2h15m.
func Left(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	length := at.Sub(now)
	switch {
	case length <= 0 && length > -time.Second:
		return "now"
	case length < 0:
		return "overdue " + TwoUnits(-length)
	}
	return TwoUnits(length)
}

// Relative is an instant relative to now: in 2h15m, 3d ago.
func Relative(at, now time.Time) string {
	if length := at.Sub(now); length > 0 {
		return "in " + TwoUnits(length)
	}
	return TwoUnits(now.Sub(at)) + " ago"
}

func TwoUnits(length time.Duration) string {
	length = length.Truncate(time.Second)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, unit := range units {
		count := length / unit.size
		if count == 0 && i < len(units)-1 {
			continue
		}
		out := fmt.Sprintf("%d%s", count, unit.name)
		if i < len(units)-1 {
			if rest := length % unit.size / units[i+1].size; rest > 0 {
				out += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return out
	}
	return "0s"
}
