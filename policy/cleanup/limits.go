package cleanup

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

// MaxRemembered is how many objects keepNewest may have to remember in one run.
const MaxRemembered = 100_000

// ErrTooMany reports that keepNewest would have to remember more than [MaxRemembered] objects.
var ErrTooMany = errors.New("keepNewest would have to remember more than 100000 objects: " +
	"use fewer groups, a smaller count or a narrower match")

// Newest finds the newest objects of each group. A first pass adds all objects, a second one asks
// which are kept.
type Newest struct {
	count  int
	groups map[string]*oldestFirst
	size   int
	kept   map[types.UID]bool
}

// NewNewest keeps count objects of each group.
func NewNewest(count int) *Newest {
	return &Newest{count: count, groups: map[string]*oldestFirst{}}
}

// Add is for the first pass. Of objects of the same time the one whose UID sorts last counts as
// newer, so that both passes and every retry agree. matched is false for an object that ranks
// without a match.
func (n *Newest) Add(group string, t time.Time, uid types.UID, matched bool) error {
	first := n.groups[group]
	if first == nil {
		first = &oldestFirst{}
		n.groups[group] = first
	}
	heap.Push(first, member{t, uid, matched})
	if first.Len() > n.count {
		heap.Pop(first)
		return nil
	}
	if n.size++; n.size > MaxRemembered {
		return ErrTooMany
	}
	return nil
}

// Keeps reports in the second pass whether an object is kept. One that the first pass did not see
// is newer than all, or was not matched then: it is kept, too.
func (n *Newest) Keeps(group string, t time.Time, uid types.UID) bool {
	if n.kept == nil {
		n.kept = make(map[types.UID]bool, n.size)
		n.EachKept(func(uid types.UID) { n.kept[uid] = true })
	}
	oldestFirst := n.groups[group]
	if n.kept[uid] || oldestFirst == nil || oldestFirst.Len() < n.count {
		return true
	}
	// Newer than the oldest that is kept: it was added or changed meanwhile.
	return (*oldestFirst)[0].compare(member{at: t, uid: uid}) < 0
}

// Kept is how many matching objects the first pass found to be kept.
func (n *Newest) Kept() (count int) {
	for _, group := range n.groups {
		for _, member := range *group {
			if member.matched {
				count++
			}
		}
	}
	return count
}

// EachKept calls f for each object that is kept, matching or not.
func (n *Newest) EachKept(f func(uid types.UID)) {
	for _, group := range n.groups {
		for _, member := range *group {
			f(member.uid)
		}
	}
}

type member struct {
	at      time.Time
	uid     types.UID
	matched bool
}

func (m member) compare(other member) int {
	return cmp.Or(m.at.Compare(other.at), cmp.Compare(m.uid, other.uid))
}

// oldestFirst is a heap.
type oldestFirst []member

func (o oldestFirst) Len() int           { return len(o) }
func (o oldestFirst) Less(i, j int) bool { return o[i].compare(o[j]) < 0 }
func (o oldestFirst) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }

// Push implements heap.Interface.
func (o *oldestFirst) Push(x any) {
	if m, ok := x.(member); ok {
		*o = append(*o, m)
	}
}

// Pop implements heap.Interface.
func (o *oldestFirst) Pop() any {
	last := len(*o) - 1
	out := (*o)[last]
	*o = (*o)[:last]
	return out
}
