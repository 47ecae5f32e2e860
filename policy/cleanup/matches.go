package cleanup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// MaxMatched is how many objects consecutiveRuns and minUnused may have to remember from one run to
// the next.
const MaxMatched = 100_000

// ErrTooManyMatched reports that more than [MaxMatched] objects match.
var ErrTooManyMatched = errors.New("consecutiveRuns or minUnused would have to remember more than 100000 objects, " +
	"so nothing was deleted: use a narrower match")

// MatchSize is how many bytes of [Matches.Encode] one object takes, without minUnused.
const MatchSize = 9

// matchKey is a hash of the UIDs of a policy and of an object.
type matchKey [MatchSize - 1]byte

// match is what a run remembers of an object.
type match struct {
	// runs in a row in which it matched.
	runs uint8
	// since is the Unix time of the first of them, for minUnused; 0 in that first run.
	since uint32
}

// Matched is in how many runs in a row objects have matched before a run, and since when. nil is a
// first run.
type Matched map[matchKey]match

// Matches count in how many runs in a row objects have matched, for consecutiveRuns, and since
// when, for minUnused. A first pass adds objects, and a second one confirms them. What a run does
// not confirm, or forgets, starts again. They are safe for concurrent use.
type Matches struct {
	policy *Policy
	now    time.Time
	before Matched

	mu        sync.Mutex
	matched   Matched
	confirmed Matched // nil until the second pass
}

// Remembers reports whether an object must match in more than one run, so that each run remembers
// the objects that matched.
func (p *Policy) Remembers() bool { return p.Spec.ConsecutiveRuns > 1 || p.MinUnused > 0 }

// NewMatches begins to count in a run that started at a time.
func (p *Policy) NewMatches(before Matched, now time.Time) *Matches {
	return &Matches{policy: p, now: now, before: before, matched: Matched{}}
}

// MatchedSince is as if objects had matched in each run since a time, for tests of policies.
func (p *Policy) MatchedSince(since time.Time, uids []types.UID) Matched {
	out, key := Matched{}, p.NewMatches(nil, since).key
	for _, uid := range uids {
		out[key(uid)] = match{runs: math.MaxUint8 - 1, since: p.firstSeen(since)}
	}
	return out
}

func (m *Matches) key(uid types.UID) (out matchKey) {
	sum := sha256.Sum256([]byte(string(m.policy.UID) + "/" + string(uid)))
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
	match := m.before[key]
	match.runs = min(match.runs, math.MaxUint8-1) + 1
	if int64(match.since) > m.now.Unix() {
		match.since = 0 // The clock was wrong, then or now.
	}
	if m.matched[key] = match; len(m.matched) > MaxMatched {
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
func (m *Matches) Confirm(uid types.UID) int { return int(m.confirm(uid).runs) }

func (m *Matches) confirm(uid types.UID) match {
	if m == nil {
		return match{}
	}
	key := m.key(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.matched[key]
	if found.runs > 0 && m.confirmed != nil {
		m.confirmed[key] = found
	}
	return found
}

// Forget takes back an object that does not match any more. On nil it does nothing.
func (m *Matches) Forget(uid types.UID) {
	if m == nil {
		return
	}
	key := m.key(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.matched, key)
	delete(m.confirmed, key)
}

// Enough is how many objects have matched in enough runs, and for long enough.
func (m *Matches) Enough() (count int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, match := range m.matched {
		if m.policy.awaits(match, m.now).Verdict == Delete {
			count++
		}
	}
	return count
}

// Encode returns the state that the next run needs, of a run that ends at a time. A run that stalls
// has no second pass, and announces nothing: the time of what is new begins with a later run.
func (m *Matches) Encode(ended time.Time) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	matched := m.confirmed
	if matched == nil {
		matched = m.matched
	}
	keys := slices.SortedFunc(maps.Keys(matched), func(a, b matchKey) int { return bytes.Compare(a[:], b[:]) })
	first := m.policy.firstSeen(ended)
	out := make([]byte, 0, len(keys)*m.policy.matchSize())
	for _, key := range keys {
		match := matched[key]
		if out = append(append(out, key[:]...), match.runs); m.policy.MinUnused == 0 {
			continue
		}
		if match.since == 0 && m.confirmed != nil {
			match.since = first
		}
		out = binary.BigEndian.AppendUint32(out, match.since)
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
	if left == nil || !p.Remembers() || p.Hash == "" || left.SpecHash != p.Hash || !p.Schedule.Next(left.ScheduledTime.Time).Equal(due) {
		return nil, nil
	}
	var text []byte
	size := p.matchSize()
	for number := range left.Pages {
		next, err := page(number + 1)
		if err != nil {
			return nil, fmt.Errorf("reading the matches of run %s: %w", left.Run, err)
		}
		if text = append(text, next...); len(next) == 0 || len(text) > MaxMatched*size {
			return nil, nil
		}
	}
	if SumMatches(text) != left.SHA256 || len(text)%size != 0 {
		return nil, nil
	}
	out := make(Matched, len(text)/size)
	for data := range slices.Chunk(text, size) {
		read := match{runs: data[MatchSize-1]}
		if p.MinUnused > 0 {
			read.since = binary.BigEndian.Uint32(data[MatchSize:])
		}
		out[matchKey(data)] = read
	}
	return out, nil
}

// The bounds of minUnused. A schedule has no finer step than a minute.
const (
	minMinUnused = time.Minute
	maxMinUnused = 365 * 24 * time.Hour
)

// parseMinUnused reads spec.minUnused; absent is 0.
func parseMinUnused(path *field.Path, value *v1alpha1.Duration) (time.Duration, *field.Error) {
	if value == nil {
		return 0, nil
	}
	out, err := lifetime.ParseDuration(string(*value))
	switch {
	case err != nil:
		return 0, field.Invalid(path, *value, err.Error())
	case out < minMinUnused:
		return 0, field.Invalid(path, *value, "is less than a minute: write at least 1m, or remove the field")
	case out > maxMinUnused:
		return 0, field.Invalid(path, *value, "is more than a year: write at most 365d")
	}
	return out, nil
}

// leastRuns is how many runs minUnused should span: no run sees an object that is used between two.
const leastRuns = 7

// FewRuns is a warning if minUnused spans fewer than seven runs; else empty. It counts from the
// beginning of a year, since a warning must not depend on the clock.
func (p *Policy) FewRuns() string {
	if p.MinUnused == 0 || p.Schedule == nil {
		return ""
	}
	runs := p.Schedule.Upcoming(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), leastRuns+1)
	if len(runs) <= leastRuns || runs[leastRuns].Sub(runs[0]) <= p.MinUnused {
		return ""
	}
	return fmt.Sprintf("spans fewer than %d runs of the schedule, and an object that is used only between two runs is deleted: "+
		"run the policy more often, such as every hour", leastRuns)
}

// matchSize is how many bytes of [Matches.Encode] one object takes. What changes it is a change of
// the spec, which restarts the count.
func (p *Policy) matchSize() int {
	if p.MinUnused > 0 {
		return MatchSize + 4
	}
	return MatchSize
}

// firstSeen is since when an object counts as unused that was first matched by a run which ended at
// a time. It is the scheduled time, if the run ended within a minute of it.
func (p *Policy) firstSeen(ended time.Time) uint32 {
	if p.MinUnused == 0 {
		return 0
	}
	if due, _ := p.Schedule.Latest(ended.Add(-time.Minute), ended); !due.IsZero() {
		ended = due
	}
	return uint32(min(max(ended.Unix(), 1), math.MaxUint32)) // #nosec G115 -- bounded.
}

// Awaits decides about an object that matches and that nothing else keeps: Delete, or Skip until it
// has matched in enough runs, and for long enough.
func (p *Policy) Awaits(m *Matches, uid types.UID) Decision {
	match := m.confirm(uid)
	if m == nil { // Too many objects match, and no run remembers any.
		return p.awaits(match, time.Time{})
	}
	return p.awaits(match, m.now)
}

func (p *Policy) awaits(m match, now time.Time) Decision {
	since := time.Unix(int64(m.since), 0)
	if p.MinUnused == 0 || m.since > 0 && now.Sub(since) >= p.MinUnused { // First, since this is announced.
		if runs, needed := int32(m.runs), p.Spec.ConsecutiveRuns; runs < needed && needed > 1 {
			return Decision{Verdict: Skip, Reason: SkipConsecutive,
				Message: fmt.Sprintf("matched in %d of %d runs in a row: see consecutiveRuns", runs, needed)}
		}
		return Decision{Verdict: Delete}
	}
	if m.since == 0 {
		since = time.Unix(int64(p.firstSeen(now)), 0)
	}
	t := p.Schedule.Next(since.Add(p.MinUnused - time.Second))
	return Decision{Verdict: Skip, Reason: SkipUnused, Until: t, Message: fmt.Sprintf("unused since %s, deleted at about %s: see minUnused",
		since.UTC().Format(time.RFC3339), t.UTC().Format(time.RFC3339))}
}
