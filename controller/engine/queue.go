package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/engine/index"
)

// A queue holds the waiting entries of one resource for one trigger. A request may take long for
// reasons that concern its kind only: a conversion or admission webhook that hangs, an aggregated
// API that is down. Other kinds must not wait for it. Therefore
//
//   - of the queues with due entries, the one with the fewest requests under way is served first,
//     and of several such queues the one whose last turn was longest ago,
//   - a slow job takes no slot, see partition,
//   - a 429 of the API server itself pauses everything but one request a second: see retryAfter. A
//     queue that gets it again and again, while others do not, waits alone, and one request at a
//     time shows whether it is over,
//   - a 429 for a submitted object delays its own batch likewise: the API server answers the
//     account of that run,
//   - any other 429 delays its own object. If several objects of a queue get one in a row, the
//     queue waits alone.
type queue struct {
	of      schema.GroupVersionResource
	trigger *trigger
	// waiting holds the waiting entries of all partitions.
	waiting index.Queue
	// rest are the objects of all namespaces without a partition of their own.
	rest partition
	own  map[string]*partition
	// underway counts the jobs of all partitions.
	underway int

	quick   time.Duration // monotonic: the last quick answer, 0: none,
	quickOf string        // and its namespace

	refusals int           // answers of 429 in a row; answers to concurrent requests count as one
	own429   bool          // some of them not from the API server itself
	refused  time.Duration // monotonic: the first of them,
	again    time.Duration // and the last
	pausedTo time.Duration // monotonic: Retry-After, if only this queue gets 429
}

const (
	// maxRefused is how often a queue that gets 429, while others do not, pauses everything.
	maxRefused = 3
	// remembered is how long a quick answer shows that a queue as a whole does not hang, and how
	// long an idle share counts as slow.
	remembered = 10 * time.Minute
)

// retryAfter is the wait that a 429 asks for, in monotonic time. The API server guesses it, and may
// admit requests long before. So one request a second is sent, and the first that is admitted ends
// the wait.
type retryAfter struct {
	began, to time.Duration
	next      time.Duration // when the next request may be sent
}

// begin begins a wait, or makes it longer.
func (w *retryAfter) begin(r reading, after time.Duration) {
	if r.mono >= w.to {
		w.next = r.mono + minRetry
	}
	w.began, w.to = r.mono, max(w.to, r.mono+after)
}

// left is how long nothing may be sent.
func (w *retryAfter) left(r reading) time.Duration { return min(w.to, w.next) - r.mono }

// sent notes a request, and reports whether the wait goes on.
func (w *retryAfter) sent(r reading) (waits bool) {
	if waits = r.mono < w.to; waits {
		w.next = r.mono + minRetry
	}
	return waits
}

// admitted ends the wait if the API server has admitted a request that was sent since it began.
func (w *retryAfter) admitted(started time.Duration) {
	if started > w.began {
		w.to = 0
	}
}

// partition holds the waiting entries of a queue: of one slow namespace, or of all other
// namespaces. The admission webhooks of a namespace may answer each DELETE slowly, or never. Then
//
//   - a job that has been under way for slowAfter, with its live judgement, gives its slot back,
//     and its namespace gets a partition of its own: jobs of that partition take no slot, and only
//     a few of them are under way at a time, until they are quick again,
//   - while one partition is known to be stuck, requests of others count as slow after waryAfter,
//   - all slow partitions together may have at most half of Options.MaxConcurrency under way, and
//     take turns.
//
// Objects without a namespace share a partition. Beyond maxPartitions slow namespaces, the rest of
// the queue becomes slow as a whole.
type partition struct {
	share
	namespace string
	*index.Heaps
}

// maxPartitions bounds the partitions of a queue: every turn looks at all of them.
const maxPartitions = 128

func (p *partition) empty() bool {
	return p.inFlight == 0 && p.Due.Len()+p.Backfill.Len()+p.Claimed.Len() == 0
}

// partition returns the partition of a namespace.
func (q *queue) partition(namespace string) *partition {
	if own := q.own[namespace]; own != nil {
		return own
	}
	return &q.rest
}

// partitions calls f for all partitions of a queue.
func (q *queue) partitions(f func(*partition)) {
	f(&q.rest)
	for _, own := range q.own {
		f(own)
	}
}

// candidate is the next entry of a partition.
type candidate struct {
	queue     *queue
	partition *partition
	slot      uint32
}

// before reports whether a candidate is served before another one; earlier decides between equals.
func (c *candidate) before(other *candidate, earlier func() bool) bool {
	switch {
	case c.queue.trigger.Priority != other.queue.trigger.Priority:
		return c.queue.trigger.Priority < other.queue.trigger.Priority
	case c.partition.inFlight != other.partition.inFlight:
		return c.partition.inFlight < other.partition.inFlight
	case c.partition.turn != other.partition.turn:
		return c.partition.turn < other.partition.turn
	default:
		return earlier()
	}
}

// share counts the jobs of one partition.
type share struct {
	inFlight int    // all jobs under way
	apart    int    // jobs without a slot
	turn     uint64 // when it was served last, in turns of all
	slow     bool   // new jobs take no slot
	// stuck: a job took longer than slowAfter, and not only longer than waryAfter. since is when
	// the share was last found slow or stuck, in monotonic time.
	stuck bool
	since time.Duration
	good  int // quick answers in a row
}

// trigger is a registered Trigger. It never changes.
type trigger struct {
	Trigger
	id uint8
}

// label is the name in metrics and logs.
func (t *trigger) label(phase string) string {
	if phase == "" {
		return t.Name
	}
	return t.Name + "-" + phase
}

// verb names the action in errors.
func (t *trigger) verb() string {
	if t.Deletes {
		return "deleting"
	}
	return "acting on"
}

// maxTriggers is the number of triggers that fit into entry.trigger.
const maxTriggers = 256

func register(list []Trigger) ([]*trigger, error) {
	var errs []error
	var out []*trigger
	if len(list) == 0 || len(list) > maxTriggers {
		errs = append(errs, fmt.Errorf("engine: Options.Triggers has %d entries: give 1 to %d", len(list), maxTriggers))
	}
	for i, t := range list {
		switch {
		case t.Name == "":
			errs = append(errs, fmt.Errorf("engine: Options.Triggers[%d].Name is empty", i))
		case t.Action == nil:
			errs = append(errs, fmt.Errorf("engine: Options.Triggers[%d].Action of %q is nil", i, t.Name))
		case slices.ContainsFunc(out, func(other *trigger) bool { return other.Name == t.Name }):
			errs = append(errs, fmt.Errorf("engine: Options.Triggers has two of the name %q", t.Name))
		}
		out = append(out, &trigger{Trigger: t, id: uint8(i)})
	}
	return out, errors.Join(errs...)
}

// job is one object in the hands of a worker.
type job struct {
	object  Entry
	kind    *KindOptions
	trigger *trigger
	queue   *queue
	batch   *batch // where it was submitted; nil for an entry of the index
	dry     bool
	attempt int
	// unanswered: an earlier DELETE got no answer.
	unanswered bool
	started    time.Duration // monotonic
	share      *share
	apart      bool // it takes no slot: see partition
	over       bool
	confirmed  time.Time // when the rules were confirmed by which it was judged
}

// missing is the result for an object that does not exist.
func (j *job) missing() Ending {
	if j.unanswered {
		return Unconfirmed
	}
	return AlreadyGone
}

// ofNamespace reports whether the namespace of a job hangs, and not its kind: the last quick answer
// for the kind was for another namespace, and recent. The lock is held.
func (j *job) ofNamespace(r reading) bool {
	q := j.queue
	return j.object.Namespace != "" && q.quick > 0 && q.quickOf != j.object.Namespace && r.mono-q.quick < remembered
}

// batch holds the objects of one call of Submit.
type batch struct {
	run     Run
	source  string      // of its objects
	objects []Entry     // not begun yet
	release func() bool // forgets the context
	pause   retryAfter  // one of its objects was answered 429
}

// attemptResult is the result of a job.
type attemptResult struct {
	// Result is the last result of the action. A live judgement that failed sets Code, Origin,
	// After and Err.
	action.Answer
	// reported is the result to report; empty while there is nothing to report yet.
	reported Ending
	// refusal is the API server's answer if it did not accept the action.
	refusal string
	// lost: the action sent a request and got no answer.
	lost bool
	// unread: the object could not be judged live.
	unread    bool
	conflicts int
	// sent is the state that was judged last. The action was carried out on this state.
	sent Entry
	// again and rest: the action asks for another attempt, or has nothing to do until the object
	// changes.
	again, rest bool
	// postponed: the live judgement found that the object is not due yet, or that deletions are
	// held. The index has that judgement already. held is the reason why no further request was
	// sent.
	postponed bool
	held      error
	deleting  time.Time // deletionTimestamp, if the live read found one
}

// hold postpones the rest of an attempt.
func (res *attemptResult) hold(why error) { res.postponed, res.held, res.Err = true, why, nil }

// overloaded reports whether a 429 means that the API server itself is overloaded. An aggregated
// API server has filters of its own.
func (res *attemptResult) overloaded(k *KindOptions) bool {
	return res.reported == Throttled && res.Origin == action.FromServer && !k.Aggregated
}

// troubled reports whether an answer is a reason to ask for less at a time.
func (res *attemptResult) troubled(k *KindOptions) bool {
	return res.overloaded(k) || res.reported == Failed && res.Code != codeUnjudged && res.Origin != action.FromAdmission
}

// codeUnjudged stands for the HTTP status of a live judgement that failed without an answer of the
// API server as its cause.
const codeUnjudged = -1
