package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Relist is one full list of a kind, page by page. Objects that it does not show are gone. It needs
// no memory: entries carry the generation in which they were last seen.
//
// A kind with several lists (by phase, by label) passes all of them to one Relist. A Relist without
// End drops nothing, and does not affect the next one. A kind has one Relist at a time.
type Relist struct {
	engine *Engine
	kind   Kind
	gen    uint8
}

// BeginRelist starts a list of a kind. Watches may go on meanwhile: objects that they show count as
// seen.
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

// End drops the objects that were not seen since BeginRelist and returns their number.
// resourceVersion is the version of the list's first page, or the lowest of several lists: newer
// entries are kept, since a list may come from a cache that lags behind the watch (S3). If it is
// not a number, End drops all unseen objects. Call it only after every page.
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
