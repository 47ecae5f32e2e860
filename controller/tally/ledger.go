package tally

import (
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	// maxUncounted is how many UIDs a status lists at most.
	maxUncounted = 500
	// maxUncountedBytes bounds what they take in JSON, so that the whole status is under 20 kB.
	maxUncountedBytes = 18_900
)

// ledger is the part of a status that is exact whatever crashes (S7).
type ledger struct {
	succeeded, failed int64
	// uncounted are finished Pods. Only theirs are the finalizers that may be removed, and only
	// Pods that are through with that move into the counters.
	uncounted []entry
	bytes     int
}

type entry struct {
	uid     types.UID
	outcome outcome
}

// readLedger reads a status.
func readLedger(status *v1alpha1.PodTallyStatus) ledger {
	l := ledger{succeeded: status.Succeeded, failed: status.Failed}
	if listed := status.UncountedTerminatedPods; listed != nil {
		for _, uid := range listed.Succeeded {
			l.add(uid, succeeded)
		}
		for _, uid := range listed.Failed {
			l.add(uid, failed)
		}
	}
	return l
}

// write puts the ledger into a status.
func (l *ledger) write(status *v1alpha1.PodTallyStatus) {
	status.Succeeded, status.Failed, status.UncountedTerminatedPods = l.succeeded, l.failed, nil
	if len(l.uncounted) == 0 {
		return
	}
	listed := &v1alpha1.UncountedTerminatedPods{}
	for _, one := range l.uncounted {
		if one.outcome == succeeded {
			listed.Succeeded = append(listed.Succeeded, one.uid)
		} else {
			listed.Failed = append(listed.Failed, one.uid)
		}
	}
	status.UncountedTerminatedPods = listed
}

func (l *ledger) add(uid types.UID, how outcome) {
	l.uncounted = append(l.uncounted, entry{uid, how})
	l.bytes += size(uid)
}

// fits reports whether one more UID may be listed.
func (l *ledger) fits(uid types.UID) bool {
	return len(l.uncounted) < maxUncounted && l.bytes+size(uid) <= maxUncountedBytes
}

func size(uid types.UID) int { return len(uid) + len(`"",`) }

// settle is the ledger after the Pods that are through have moved into the counters.
func (l *ledger) settle(through func(types.UID) bool) ledger {
	out := ledger{succeeded: l.succeeded, failed: l.failed}
	for _, one := range l.uncounted {
		switch {
		case !through(one.uid):
			out.add(one.uid, one.outcome)
		case one.outcome == succeeded:
			out.succeeded++
		default:
			out.failed++
		}
	}
	return out
}
