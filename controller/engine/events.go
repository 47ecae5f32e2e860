package engine

import (
	"time"
)

// StuckObject is an object that has been terminating for longer than Options.StuckAfter.
type StuckObject struct {
	Object Object
	// Kind is what was registered for Object.Kind.
	Kind KindOptions
	// Since is its deletionTimestamp.
	Since time.Time
}

// Summary counts the deletions for one source over a summary interval: enough for one aggregated
// Event on that source.
type Summary struct {
	Source    string
	Trigger   string
	Kind      KindOptions
	Namespace string // of all objects if they share it, else empty
	Deleted   int
	DryRun    int
	First     time.Time
	Last      time.Time
	// Examples are the first few, "namespace/name".
	Examples []string
}

// BreakerEvent reports that deletions of a scope are paused or resumed.
type BreakerEvent struct {
	// Class of the scope: "clock" and "apiserver" (everything), "kind", or the class of the source:
	// "object", "namespace", "policy", "runtime".
	Class string
	// Scope identifies the scope. Both events of a pause have the same, and no two scopes that are
	// paused at a time share it. It is not meant for people.
	Scope string
	// Kind, Namespace and Source name the scope as far as the class has them.
	Kind      string
	Namespace string
	Source    string
	// Open is true when the pause begins, false when it ends.
	Open bool
	// Reason is one CamelCase word for a condition: ClockJump, ClockSkew, NoServerTime,
	// Unreachable, ServerErrors, Refused, NotJudged.
	Reason  string
	Message string
	At      time.Time
}
