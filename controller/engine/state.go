package engine

// arm makes an entry wait until an instant.
func (e *Engine) arm(slot uint32, wake int64) { e.enter(slot, stateArmed, wake) }

// enter puts an entry into a state in which it waits in a heap.
func (e *Engine) enter(slot uint32, s state, wake int64) {
	e.to(slot, s)
	en := e.index.at(slot)
	en.wake = wake
	e.index.move(slot)
	if wake < e.sleeping {
		e.sleeping = wake
		e.wakeUp()
	}
}

// rest puts an entry into a state in which it waits in no heap.
func (e *Engine) rest(slot uint32, s state) {
	e.index.pull(slot)
	e.to(slot, s)
}

func tracked(s state) bool { return s == stateArmed || s == stateInFlight || s == stateReported }

// to changes the state and updates the counters.
func (e *Engine) to(slot uint32, s state) {
	en := e.index.at(slot)
	if was, is := tracked(en.state), tracked(s); was != is {
		if is {
			e.kinds[en.kind].tracked++
		} else {
			e.kinds[en.kind].tracked--
		}
	}
	en.state = s
	if s != stateArmed && s != stateInFlight {
		e.punctual(slot)
	}
}

// overdue marks an entry whose time has come.
func (e *Engine) overdue(slot uint32) {
	if en := e.index.at(slot); en.flags&flagLate == 0 {
		en.flags |= flagLate
		e.late++
	}
}

// punctual is the reverse of overdue.
func (e *Engine) punctual(slot uint32) {
	delete(e.blocked, slot)
	if en := e.index.at(slot); en.flags&flagLate != 0 {
		en.flags &^= flagLate
		e.late--
	}
}

// bury turns an entry into a tombstone. The object is gone, so its name is dropped.
func (e *Engine) bury(slot uint32, now int64) {
	en := e.index.at(slot)
	if en.flags&flagStuck != 0 {
		e.stuck--
		en.flags &^= flagStuck
	}
	en.name = ""
	e.dropPayload(slot)
	e.enter(slot, stateTombstone, now+int64(e.opts.KeepOut))
}

// release removes an entry and updates the counters.
func (e *Engine) release(slot uint32) {
	en := e.index.at(slot)
	e.punctual(slot)
	if tracked(en.state) {
		e.kinds[en.kind].tracked--
	}
	if en.flags&flagStuck != 0 {
		e.stuck--
	}
	e.dropPayload(slot)
	e.index.release(slot)
}

func (e *Engine) dropPayload(slot uint32) {
	if t := e.triggers[e.index.at(slot).trigger]; t.Payload {
		e.payloads.drop(t, e.index.uid(slot))
	}
}

// rewake moves the wake time of waiting entries forward to an instant. It walks the whole index:
// call it for rare events only.
func (e *Engine) rewake(at int64, which func(en *entry) bool) {
	for c := 0; e.index.each(c, func(slot uint32, en *entry) {
		if en.pos >= 0 && en.wake > at && which(en) {
			en.flags &^= flagParked
			en.wake = at
			e.index.move(slot)
		}
	}); c++ {
	}
	e.wakeUp()
}

// wakeUp wakes the dispatcher.
func (e *Engine) wakeUp() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}
