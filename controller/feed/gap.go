package feed

import "time"

// gap is a time in which a feed does not know all objects, or does not watch their changes.
type gap struct {
	since time.Time
	// planned: the kind is being listed again on schedule, and nothing has failed. Such a gap
	// counts only if the list takes long.
	planned bool
}

// listsAgain notes that the watch has ended for a planned list.
func (f *Feed) listsAgain() {
	f.gap.CompareAndSwap(nil, &gap{f.options.Clock.Now(), true})
}

// lost notes that a list or a watch has failed, and reports whether all objects were known before.
func (f *Feed) lost() bool {
	before := f.gap.Load()
	switch {
	case before == nil:
		f.gap.Store(&gap{since: f.options.Clock.Now()})
	case before.planned:
		f.gap.Store(&gap{since: before.since})
	default:
		return false
	}
	f.options.Synced.change()
	return true
}

// complete notes that all objects are known and their changes are being watched.
func (f *Feed) complete() {
	if before := f.gap.Swap(nil); before != nil && !before.planned {
		f.options.Synced.change()
	}
}

// incompleteSince returns since when not all objects are known, or zero while they are.
func (f *Feed) incompleteSince() time.Time {
	open := f.gap.Load()
	if open == nil || open.planned && f.options.Clock.Since(open.since) < stallAfter {
		return time.Time{}
	}
	return open.since
}
