package cleanup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// MaxMatched is how many objects consecutiveRuns may have to remember from one run to the next.
const MaxMatched = 100_000

// ErrTooManyMatched reports that more than [MaxMatched] objects match.
var ErrTooManyMatched = errors.New("consecutiveRuns would have to remember more than 100000 objects, " +
	"so nothing was deleted: use a narrower match")

// MatchSize is how many bytes of [Matches.Encode] one object takes.
const MatchSize = 9

// matchKey is a hash of the UIDs of a policy and of an object.
type matchKey [MatchSize - 1]byte

// Matched is in how many runs in a row objects have matched before a run. nil is a first run.
type Matched map[matchKey]uint8

// Matches count in how many runs in a row objects have matched, for consecutiveRuns. A first pass
// adds objects, and a second one confirms them. What a run does not confirm, or forgets, starts
// again. They are safe for concurrent use.
type Matches struct {
	policy types.UID
	before Matched

	mu        sync.Mutex
	now       Matched
	confirmed Matched // nil until the second pass
}

// Consecutive reports whether an object must match in more than one run.
func (p *Policy) Consecutive() bool { return p.Spec.ConsecutiveRuns > 1 }

// NewMatches begins to count in a run.
func (p *Policy) NewMatches(before Matched) *Matches {
	return &Matches{policy: p.UID, before: before, now: Matched{}}
}

func (m *Matches) key(uid types.UID) (out matchKey) {
	sum := sha256.Sum256([]byte(string(m.policy) + "/" + string(uid)))
	copy(out[:], sum[:])
	return out
}

// Add adds an object that matches in this run. One without a UID cannot be told from others, and is
// never added.
func (m *Matches) Add(uid types.UID) error {
	if uid == "" {
		return nil
	}
	key := m.key(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[key] = min(m.before[key], math.MaxUint8-1) + 1; len(m.now) > MaxMatched {
		return ErrTooManyMatched
	}
	return nil
}

// Again begins the second pass. On nil it does nothing.
func (m *Matches) Again() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirmed = Matched{}
}

// Confirm returns in how many runs in a row an object has matched, this one included, and keeps the
// count for the next run. It is 0 if the first pass has not added the object, and on nil.
func (m *Matches) Confirm(uid types.UID) int {
	if m == nil {
		return 0
	}
	key := m.key(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	runs := m.now[key]
	if runs > 0 && m.confirmed != nil {
		m.confirmed[key] = runs
	}
	return int(runs)
}

// Forget takes back an object that does not match any more. On nil it does nothing.
func (m *Matches) Forget(uid types.UID) {
	if m == nil {
		return
	}
	key := m.key(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.now, key)
	delete(m.confirmed, key)
}

// AtLeast is how many objects have matched in that many runs in a row.
func (m *Matches) AtLeast(runs int32) (count int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.now {
		if int32(one) >= runs {
			count++
		}
	}
	return count
}

// Encode returns the state that the next run needs. A run that stalls has no second pass.
func (m *Matches) Encode() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	matched := m.confirmed
	if matched == nil {
		matched = m.now
	}
	keys := slices.SortedFunc(maps.Keys(matched), func(a, b matchKey) int { return bytes.Compare(a[:], b[:]) })
	out := make([]byte, 0, len(keys)*MatchSize)
	for _, key := range keys {
		out = append(append(out, key[:]...), matched[key])
	}
	return out
}

// SumMatches is the checksum of the text that [Matches.Encode] returned.
func SumMatches(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ReadMatched reads what the run before the one that is due has left, page by page. It is a first
// run if the policy has changed, a run in between was missed, or a page is lost or changed: anyone
// who can write reports could have added objects (S6).
func (p *Policy) ReadMatched(left *v1alpha1.CleanupMatches, due time.Time, page func(number int32) ([]byte, error)) (Matched, error) {
	if left == nil || !p.Consecutive() || p.Hash == "" || left.SpecHash != p.Hash || !p.Schedule.Next(left.ScheduledTime.Time).Equal(due) {
		return nil, nil
	}
	var text []byte
	for number := range left.Pages {
		next, err := page(number + 1)
		if err != nil {
			return nil, fmt.Errorf("reading the matches of run %s: %w", left.Run, err)
		}
		if text = append(text, next...); len(next) == 0 || len(text) > MaxMatched*MatchSize {
			return nil, nil
		}
	}
	if SumMatches(text) != left.SHA256 || len(text)%MatchSize != 0 {
		return nil, nil
	}
	out := make(Matched, len(text)/MatchSize)
	for one := range slices.Chunk(text, MatchSize) {
		out[matchKey(one)] = one[MatchSize-1]
	}
	return out, nil
}
