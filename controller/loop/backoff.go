package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff doubles from a first wait to a longest one and stays there: nothing is ever given up
// (S3).
type Backoff struct {
	first, most time.Duration
	next        *wait.Backoff // nil before the first failure
}

// jitter spreads what failed at the same moment, for example when the API server restarts.
const jitter = 0.5

// NewBackoff makes a backoff with the usual bounds: an outage of the API server ends at most ten
// seconds before it is noticed.
func NewBackoff() *Backoff { return NewBackoffOf(200*time.Millisecond, 10*time.Second) }

// NewBackoffOf makes a backoff with bounds of its own.
func NewBackoffOf(first, most time.Duration) *Backoff { return &Backoff{first: first, most: most} }

// Next returns how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	if b.next == nil {
		b.next = &wait.Backoff{Duration: b.first, Factor: 2, Jitter: jitter, Steps: 1 << 30, Cap: b.most}
	}
	return b.next.Step()
}

// Reset begins again at the first wait.
func (b *Backoff) Reset() { b.next = nil }
