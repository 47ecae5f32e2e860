package main

import (
	"math"
	"slices"
)

// median of the values, 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// bounds are the least and the greatest value, 0 if there are none.
func bounds(values []float64) (low, high float64) {
	if len(values) == 0 {
		return 0, 0
	}
	return slices.Min(values), slices.Max(values)
}

// percentile is the least value that at least the share p (0 to 1) of the values do not exceed
// (nearest rank), 0 if there are none.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p * float64(len(s))))
	return s[min(len(s), max(1, rank))-1]
}

// round cuts off digits that mean nothing.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }
