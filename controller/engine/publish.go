package engine

// checkClock returns the instant to decide by, and whether deletions may go on. An engine that does
// not run, such as that of a standby whose metrics are scraped, publishes nothing. The lock is
// held.
func (e *Engine) checkClock(r reading) (now int64, ok bool) {
	held, jumps := e.guard.held, e.guard.jumps
	now, ok = e.guard.now(r)
	if !e.running {
		return now, ok
	}
	if e.guard.jumps != jumps {
		// Retries and tombstones were scheduled by a clock that was wrong.
		e.rewake(now+int64(backoffMost), func(en *entry) bool {
			return en.state == stateArmed && en.wake > en.expiry || en.state == stateTombstone
		})
	}
	if e.guard.held != held {
		e.clockEvent(held, r)
	}
	return now, ok
}

func (e *Engine) clockEvent(before string, r reading) {
	ev := BreakerEvent{Class: classClock, Scope: classClock, Open: e.guard.held != "", Reason: e.guard.held, Message: e.guard.message, At: r.at}
	if !ev.Open {
		ev.Reason, ev.Message = before, "deletions resumed: the clock agrees with the API server's"
	}
	if ev.Reason == ReasonNoServerTime {
		return // Every start begins with this hold.
	}
	e.publish(ev)
}

// publish queues an event. The lock is held.
func (e *Engine) publish(ev BreakerEvent) {
	e.events = append(e.events, ev)
	e.note(e.publishAll)
}

// publishAll publishes the events one by one, in order: if the end of a pause overtook its
// beginning, a listener would believe that the pause never ends. If another goroutine is publishing
// already, that goroutine publishes the new events.
func (e *Engine) publishAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.publishing {
		return
	}
	e.publishing = true
	for len(e.events) > 0 {
		events := e.events
		e.events = nil
		e.mu.Unlock()
		for _, ev := range events {
			e.opts.Log.Info(ev.Message, "class", ev.Class, "kind", ev.Kind, "namespace", ev.Namespace, "source", ev.Source, "open", ev.Open, "reason", ev.Reason)
			if e.opts.OnBreaker != nil {
				e.opts.OnBreaker(ev)
			}
		}
		e.mu.Lock()
	}
	e.publishing = false
}
