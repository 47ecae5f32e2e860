package engine

// Reserve takes one deletion from the budget of MaxDeletionsPerMinute, for a DELETE that the engine
// does not send itself. ok is false where there is no room now. Else call done once, with whether
// the deletion happened, or may have happened.
func (e *Engine) Reserve() (done func(happened bool), ok bool) {
	e.mu.Lock()
	defer e.unlock()
	if !e.all.Reserve(e.read().mono) {
		return nil, false
	}
	return func(happened bool) {
		e.mu.Lock()
		defer e.unlock()
		e.all.Done(e.read().mono, happened)
	}, true
}
