package tally

import "slices"

// MaxPerNamespace is how many PodTallies of a namespace count Pods: the oldest do. Each is matched
// with every Pod of the namespace, and kept with each Pod that it matches (S9).
const MaxPerNamespace = 100

// Within returns the tallies of a namespace that count, the oldest first, and the others. Those
// that are being deleted do neither.
func Within(tallies []*Tally) (counting, excess []*Tally) {
	counting = slices.DeleteFunc(slices.Clone(tallies), func(each *Tally) bool { return each.Deleting })
	slices.SortFunc(counting, func(a, b *Tally) int {
		switch {
		case a.Before(b):
			return -1
		case b.Before(a):
			return 1
		}
		return 0
	})
	most := min(len(counting), MaxPerNamespace)
	return counting[:most], counting[most:]
}
