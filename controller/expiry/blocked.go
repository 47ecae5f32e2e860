package expiry

// BlockedObject is an object that is due and that several attempts in a row could not delete, for a reason of its own that no
// breaker reports.
type BlockedObject struct {
	Object Object
	// Kind is what was registered for Object.Kind.
	Kind KindOptions
	// Reason is one CamelCase word for an Event.
	Reason string
	// Message says what blocks it, in words for people.
	Message string
}

// ReasonConflict: the object changes faster than the API server answers the requests for it, so that each is a conflict.
const ReasonConflict = "DeleteConflict"

const messageConflict = "it changes before the API server answers a request for it: " +
	"look for a slow admission webhook, and for what keeps writing the object"

// blockedAfter is how many attempts in a row fail before an object counts as blocked. Each follows it through maxRounds changes.
const blockedAfter = 3

// reportBlocked reports once what blocks the deletion of an object that is due. The lock is held.
func (e *Engine) reportBlocked(slot uint32, res *attemptResult, reason, message string) {
	if e.blocked[slot] == reason {
		return
	}
	e.blocked[slot] = reason
	o, kind, err := e.index.object(slot), e.kinds[e.index.at(slot).kind].opts, res.err
	e.note(func() {
		e.opts.Log.Info("object cannot be deleted yet", "kind", kind.Kind, "object", nameOf(&o), "uid", o.UID, "expiry", o.Expiry,
			"reason", reason, "because", message, "err", err)
		if e.opts.OnBlocked != nil {
			e.opts.OnBlocked(BlockedObject{Object: o, Kind: *kind, Reason: reason, Message: message})
		}
	})
}
