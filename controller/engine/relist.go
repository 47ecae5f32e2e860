package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Relist is one full list of a kind, as it comes in page by page. What it does not show is gone. It
// needs no memory: entries carry the generation in which they were last seen.
//
// A kind that takes several lists (by phase, by label) runs them all into one Relist. A Relist that
// is not ended changes nothing more than its calls did: the next one stands for itself. One at a
// time for a kind.
type Relist struct {
	engine *Engine
	kind   Kind
	gen    uint8
}

// BeginRelist starts a list of a kind. Watches may go on meanwhile: what they say counts as seen.
func (e *Engine) BeginRelist(k Kind) *Relist {
	e.mu.Lock()
	defer e.unlock()
	e.kinds[k].gen++
	return &Relist{engine: e, kind: k, gen: e.kinds[k].gen}
}

// Upsert is Engine.Upsert for an object in the list.
func (r *Relist) Upsert(o Object) { r.engine.upsert(o, fromRelist) }

// Terminating is Engine.Terminating for an object in the list.
func (r *Relist) Terminating(o Object, since time.Time) { r.engine.Terminating(o, since) }

// Cancel is Engine.Cancel for an object in the list that has no expiry.
func (r *Relist) Cancel(uid types.UID, resourceVersion string) {
	r.engine.Cancel(r.kind, uid, resourceVersion)
}

// End drops what was not seen since BeginRelist and returns how many that were. resourceVersion is
// the list's own, of its first page, and of several lists the lowest: entries that are newer are
// not judged by it, since a list may come from a cache that lags behind the watch (S3). Where it is
// not a number, all that was not seen is dropped. Call it only when every page has come in.
func (r *Relist) End(resourceVersion string) (dropped int) {
	limit, numeric := packVersion(resourceVersion)
	return r.engine.sweep(r.kind, func(en *entry) bool {
		return en.gen != r.gen && (!numeric || en.flags&flagOddRV != 0 || en.rv <= limit)
	})
}

// sweep drops entries of a kind, chunk by chunk, so that deletions go on in between.
func (e *Engine) sweep(k Kind, which func(en *entry) bool) (dropped int) {
	for c, more := 0, true; more; c++ {
		e.mu.Lock()
		more = e.index.each(c, func(slot uint32, en *entry) {
			if en.kind == k && which(en) {
				if tracked(en.state) {
					dropped++
				}
				e.release(slot)
			}
		})
		e.unlock()
	}
	return dropped
}
