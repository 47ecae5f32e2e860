package engine

import (
	"strings"
	"time"
)

// BlockedObject is an object that is due and that several attempts in a row could not delete, for a
// reason of its own that no breaker reports.
type BlockedObject struct {
	Object Object
	// Kind is what was registered for Object.Kind.
	Kind KindOptions
	// Reason is one CamelCase word for an Event.
	Reason string
	// Message says what blocks it, in words for people.
	Message string
}

// ReasonConflict: the object changes faster than the API server answers the requests for it, so
// that each is a conflict.
const ReasonConflict = "DeleteConflict"

const messageConflict = "it changes before the API server answers a request for it: " +
	"look for a slow admission webhook, and for what keeps writing the object"

// ReasonDeleteRefused: an admission policy, an admission webhook or a rule of the API server
// refuses the DELETE of this object, independently of Curfew's permissions. Breakers report a
// missing permission, since that concerns more than one object.
const ReasonDeleteRefused = "DeleteRefused"

// refusalMost bounds how much of a refusal is quoted.
const refusalMost = 512

func messageRefused(refusal string) string {
	if len(refusal) > refusalMost {
		refusal = strings.ToValidUTF8(refusal[:refusalMost], "") + "…"
	}
	return "the API server refuses to delete it: " + refusal
}

// blockage is the reason why an object is blocked, and when that was reported last, in monotonic
// time.
type blockage struct {
	reason   string
	reported time.Duration
}

// reportEvery is how long until a blockage that lasts is reported again. The API server keeps an
// Event for an hour.
const reportEvery = 30 * time.Minute

// blockedAfter is how many attempts in a row fail before an object counts as blocked. Each follows
// it through maxRounds changes.
const blockedAfter = 3

// reportBlocked reports why a due object cannot be deleted, once and every half hour. The lock is
// held.
func (e *Engine) reportBlocked(slot uint32, res *attemptResult, reason, message string, r reading) {
	was, known := e.blocked[slot]
	if known && was.reason == reason && r.mono-was.reported < reportEvery {
		return
	}
	e.blocked[slot] = blockage{reason, r.mono}
	o, kind, err := e.index.object(slot), e.kinds[e.index.at(slot).kind].opts, res.Err
	e.note(func() {
		e.opts.Log.Info("object cannot be deleted yet", "kind", kind.Kind, "object", nameOf(&o), "uid", o.UID, "expiry", o.Expiry,
			"reason", reason, "because", message, "err", err)
		if e.opts.OnBlocked != nil {
			e.opts.OnBlocked(BlockedObject{Object: o, Kind: *kind, Reason: reason, Message: message})
		}
	})
}
