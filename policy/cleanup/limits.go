package cleanup

import (
	"fmt"

	"curfew.dev/curfew/policy/v1alpha1"
)

// Limited reports whether a run must count the matching objects before it deletes any.
func (p *Policy) Limited() bool {
	return p.Spec.MaxDeletions != nil || p.Spec.MaxPercentage != nil
}

// Allowance is how many more objects a run may delete. matched ones are left among all objects of
// the matched kinds and namespaces, and it has deleted some before it was interrupted: they count
// for both. An error means that it deletes nothing more.
func (p *Policy) Allowance(matched, all, deleted int64) (int64, error) {
	deleted = max(0, deleted)
	matched, all = matched+deleted, all+deleted
	allowed, why := matched, ""
	if most := p.Spec.MaxDeletions; most != nil && *most < allowed {
		allowed, why = *most, fmt.Sprintf("spec.maxDeletions is %d", *most)
	}
	if percent := p.Spec.MaxPercentage; percent != nil {
		if most := all * int64(*percent) / 100; most < allowed {
			allowed, why = most, fmt.Sprintf("spec.maxPercentage is %d, which is %d of %d objects", *percent, most, all)
		}
	}
	if why == "" || p.Spec.OnExceed == v1alpha1.ExceedTruncates {
		return max(0, allowed-deleted), nil
	}
	done := "nothing was deleted"
	if deleted > 0 {
		done = fmt.Sprintf("%d were deleted before, and no more", deleted)
	}
	return 0, fmt.Errorf("%d objects match, and %s: %s; raise the limit, narrow the match, or set onExceed: Truncate", matched, why, done)
}
