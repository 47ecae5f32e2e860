package engine

import (
	"time"
)

// doChores drops old tombstones and reports objects that are stuck.
func (e *Engine) doChores(now int64) {
	for {
		slot, some := e.index.chores.top()
		if !some || e.index.at(slot).wake > now {
			return
		}
		if e.index.at(slot).state == stateTombstone {
			e.release(slot)
		} else {
			e.reportStuck(slot)
		}
	}
}

// reportStuck reports once that an object has been terminating for too long.
func (e *Engine) reportStuck(slot uint32) {
	en := e.index.at(slot)
	since := time.Unix(0, en.wake).Add(-e.opts.StuckAfter).UTC()
	en.flags |= flagStuck
	e.stuck++
	e.index.pull(slot)
	o, kind := e.index.object(slot), e.kinds[en.kind].opts
	e.note(func() {
		e.opts.Log.Info("object is stuck terminating: look at its finalizers", "kind", kind.Kind, "object", nameOf(&o), "uid", o.UID, "deletionTimestamp", since)
		if e.opts.OnStuck != nil {
			e.opts.OnStuck(StuckObject{Object: o, Kind: *kind, Since: since})
		}
	})
}
