package world

// Shrink returns a short part of a list, in order, with which a test still fails: nothing can be
// left out of it. It is Zeller's delta debugging: it leaves out halves, then quarters, and so on.
func Shrink[T any](all []T, fails func([]T) bool) []T {
	for parts := 2; len(all) > 1; {
		size := (len(all) + parts - 1) / parts
		shorter := false
		for from := 0; from < len(all); from += size {
			rest := append(append([]T{}, all[:from]...), all[min(from+size, len(all)):]...)
			if len(rest) > 0 && fails(rest) {
				all, parts, shorter = rest, max(parts-1, 2), true
				break
			}
		}
		switch {
		case shorter:
		case size == 1:
			return all
		default:
			parts = min(2*parts, len(all))
		}
	}
	return all
}
