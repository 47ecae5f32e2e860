package world

import (
	"context"
	"slices"
	"time"

)

// First reports whether the other object is deleted before an entry of this one expires, so that
// this one is deleted with it. held means that something keeps Curfew from this one.
func (c *Cascade) First(entry *Entry, held bool) bool {
	other := c.Entry
	switch {
	case entry.Native == nil && held, entry.Expiry.IsZero() && entry.Value.Never, other == nil:
		return true
	case entry.Expiry.IsZero():
		return !other.Expiry.IsZero()
	default:
		return !other.Expiry.IsZero() && other.Expiry.Before(entry.Expiry)
	}
}

// Follow gives the entries of an object the expiry of its Namespace or its last owner, where that
// is known and deletes the object first.
func (w *World) Follow(ctx context.Context, object map[string]any, entries []Entry, now time.Time) error {
	if !slices.ContainsFunc(entries, func(entry Entry) bool { return !entry.Trigger.Stops() }) {
		return nil
	}
	with, unknown, err := w.Cascade(ctx, object, now)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		w.Note("some owners were not read, and what is deleted with them may go earlier: kubectl curfew explain names them")
	}
	for i := range entries {
		entry := &entries[i]
		if with == nil || entry.Trigger.Stops() || !with.First(entry, entry.Blocker() != nil) {
			continue
		}
		other := with.Entry
		if other == nil { // It is being deleted, or gone.
			other = &Entry{Expiry: now}
		}
		if other.Expiry.IsZero() {
			continue
		}
		// Nothing that keeps Curfew from an object keeps the garbage collector from it.
		entry.With, entry.Native, entry.Obstacles = with, nil, nil
		entry.Expiry, entry.Estimated, entry.Uncertain = other.Expiry, other.Estimated, other.Uncertain
	}
	return nil
}
