package expire

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// traffic is what the answers to requests for one resource show.
type traffic struct {
	of     schema.GroupVersionResource
	number uint16
	quick  time.Duration // monotonic: the last quick answer, 0: none,
	// quickIn is the namespace of that answer.
	quickIn string
	refused time.Duration // monotonic: the first 429 since the last other answer, 0: none
}

// remembered is how long a quick answer shows that a resource as a whole does not hang.
const remembered = 10 * time.Minute

// retryAfter is the wait that 429s ask for, in monotonic time. One among other answers concerns its
// object alone: fewer requests at a time are enough then. The API server guesses how long to wait,
// and may admit requests long before. So one request a second is sent, and the first that is
// admitted ends the wait.
type retryAfter struct {
	began, to, next time.Duration // next: when the next request may be sent
	refusals        int           // in a row
}

// refused begins a wait, or makes it longer, if breakerThreshold requests in a row were refused.
func (w *retryAfter) refused(r reading, after time.Duration) {
	if w.refusals++; w.refusals < breakerThreshold {
		return
	}
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
	w.refusals = 0
	if started > w.began {
		w.to = 0
	}
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
	traffic *traffic
	group   *index.Group
	work    Work // nil for an entry of the index
	dry     bool
	attempt int
	// unanswered: an earlier DELETE got no answer.
	unanswered bool
	started    time.Duration // monotonic
	slow       bool          // its group was slow when it began
	apart      bool          // it takes no slot
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
	t := j.traffic
	return j.object.Namespace != "" && t.quick > 0 && t.quickIn != j.object.Namespace && r.mono-t.quick < remembered
}

// attemptResult is the result of a job.
type attemptResult struct {
	// Result is the last result of the action. A live judgement that failed sets Code, Origin,
	// After and Err.
	deletion.Answer
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
	return res.reported == Throttled && res.Origin == deletion.FromServer && !k.Aggregated
}

// troubled reports whether an answer is a reason to ask for less at a time.
func (res *attemptResult) troubled(k *KindOptions) bool {
	return res.overloaded(k) || res.reported == Failed && res.Code != codeUnjudged && res.Origin != deletion.FromAdmission
}

// codeUnjudged stands for the HTTP status of a live judgement that failed without an answer of the
// API server as its cause.
const codeUnjudged = -1
