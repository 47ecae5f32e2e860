package cleanup

import (
	"fmt"

	"curfew.dev/curfew/policy/v1alpha1"
)

// Limited reports whether a run must count what matches before it deletes anything.
func (p *Policy) Limited() bool {
	return p.Spec.MaxDeletions != nil || p.Spec.MaxPercentage != nil
}

// Allowance is how many objects a run may delete, of matched ones among all objects of the matched
// kinds and namespaces. An error means that it deletes nothing.
func (p *Policy) Allowance(matched, all int64) (int64, error) {
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
		return allowed, nil
	}
	return 0, fmt.Errorf("%d objects match, and %s: nothing was deleted; raise the limit, narrow the match, or set onExceed: Truncate", matched, why)
}
