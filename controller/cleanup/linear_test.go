package cleanup

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

var histories = flag.Int("histories", 200, "how many histories TestCountsAreLinearizable checks")

// Two processes that both believe to lead work for a policy. They are killed, requests and answers
// are lost or late, users delete objects and touch the policy. What the processes and users see is
// explained by a sequential counter that counts each deleted object exactly once (S7). No process
// overwrites a report page of another.
func TestCountsAreLinearizable(t *testing.T) {
	defer small(2)()
	for seed := range *histories {
		h := newHistory(t, uint64(seed))
		h.play()
		for _, status := range h.statuses {
			if exact := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCountsExact); exact != nil && exact.Reason == v1alpha1.ReasonReportLost {
				t.Fatalf("seed %d: a process has overwritten a report page of another leader: %s", seed, exact.Message)
			}
		}
		if result, info := porcupine.CheckOperationsVerbose(counter, h.operations, 0); result != porcupine.Ok {
			t.Fatalf("seed %d: %s, status %+v\n%s", seed, result, h.status(), h.explain(info))
		}
	}
}

// set is a set of objects, a bit each.
type set uint16

func setOf(uids ...types.UID) (out set) {
	for _, uid := range uids {
		out |= 1 << (uid[len(uid)-1] - '0') // uid-tmp-1 is bit 1.
	}
	return out
}

func (s set) len() int64 { return int64(bits.OnesCount16(uint16(s))) }

// asked is a request of a client.
type asked struct {
	what   string // "delete", "get", "remove", "touch", "status", "end"
	leader int
	object set
	// base is the resourceVersion of the policy before a write, and next points to the one after it.
	base      string
	next      *string
	announced set
	counted   set
	deleted   int64
	lost      int64
}

// answers of the API server. unknown: there was none.
const (
	done     = "done"
	gone     = "gone"
	conflict = "conflict"
	unknown  = "unknown"
)

// counts is the state of the sequential counter.
type counts struct {
	base string
	// gone are deleted objects. accepted are those that a DELETE of Curfew deleted, or that Curfew
	// found gone, so that it must count them. named were announced once, before their DELETEs.
	gone, accepted, announced, named, counted set
	// seen are objects that a process saw after they were announced. Where another deletes one after
	// that, the object may stay uncounted: late. docs/reference-cleanup.md says so.
	seen          [4]set
	late          set
	deleted, lost int64
}

// counter is what the counts of a policy promise.
var counter = porcupine.Model{
	Init: func() any { return counts{base: "101"} },
	Step: func(state, input, output any) (bool, any) {
		return state.(counts).step(input.(asked), output.(string))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %s", input, output) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

func (c counts) step(a asked, out string) (bool, counts) {
	exists := c.gone&a.object == 0
	switch a.what {
	case "delete":
		switch {
		case out == conflict, out == unknown && !exists:
			return true, c
		case out == gone:
			c.accepted |= a.object & c.announced
			return !exists, c
		}
		c.accepted |= a.object
		c.remove(a)
		return exists && c.named&a.object != 0, c
	case "remove": // By a user.
		if out == unknown {
			return true, c
		}
		c.remove(a)
		return exists, c
	case "get":
		if out == done {
			c.seen[a.leader] |= a.object
		}
		return out == unknown || exists == (out == done), c
	case "touch":
		ok := c.base == a.base
		c.base = *a.next
		return ok, c
	case "status":
		switch current := c.base == a.base; {
		case !current:
			return out != done, c
		case out == conflict:
			return false, c
		}
		return c.write(a)
	default: // The end.
		missing := c.accepted &^ c.counted &^ c.late
		return c.announced == 0 && c.deleted == a.deleted && missing.len() <= c.lost, c
	}
}

func (c *counts) remove(a asked) {
	c.gone |= a.object
	for i, seen := range c.seen {
		if i != a.leader {
			c.late |= seen & a.object
		}
	}
}

// write replaces the status. What it announces no more is counted, if it is deleted, and if it was
// not counted before.
func (c counts) write(a asked) (bool, counts) {
	left := c.announced &^ a.announced
	missing := left & c.accepted &^ c.counted &^ a.counted &^ c.late
	ok := a.counted&^(left&c.gone) == 0 && a.counted&c.counted == 0 && a.deleted == c.deleted+a.counted.len() && missing.len() <= a.lost-c.lost
	for i := range c.seen {
		c.seen[i] &^= a.announced &^ c.announced
	}
	c.late &^= a.announced &^ c.announced
	c.named |= a.announced
	c.base, c.announced, c.counted, c.deleted, c.lost = *a.next, a.announced, c.counted|a.counted, a.deleted, a.lost
	return ok, c
}

var errNoAnswer = errors.New("the answer was lost")

// history is what processes and users do, in an order that a seed decides.
type history struct {
	*server
	random     *rand.Rand
	lock       sync.Mutex
	changed    *sync.Cond
	time       int64
	operations []porcupine.Operation
	// calls are under way. A process has ended when it has none and is not in live.
	calls   []*call
	live    map[*leader]bool
	leaders int
	quiet   bool
	all     sync.WaitGroup
}

// call is a request of a process.
type call struct {
	by      *leader
	effect  func() error
	arrived bool
	result  error
	answer  chan error
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{server: newServer(t), random: rand.New(rand.NewPCG(seed, 0)), live: map[*leader]bool{}} // #nosec G404
	h.changed = sync.NewCond(&h.lock)
	return h
}

// play has processes come and go, and lets the last one come to rest.
func (h *history) play() {
	h.begin()
	for h.step() {
	}
	h.quiet = true
	h.begin()
	for h.step() {
	}
	h.all.Wait()
	status := h.status()
	h.record(asked{what: "end", deleted: status.Deleted}, done)
}

// begin starts a process.
func (h *history) begin() {
	l := &leader{server: h.server, id: h.leaders}
	h.leaders++
	l.send, l.observe = func(effect func() error) error { return h.send(l, effect) }, func(r *request) func(error) { return h.observe(l, r) }
	process := l.controller()
	h.lock.Lock()
	h.live[l] = true
	h.lock.Unlock()
	h.all.Go(func() {
		for calm, steps := 0, 0; calm < 2 && steps < 12; steps++ {
			if _, err := process.step(h.t.Context(), v1alpha1.ClusterCleanupPolicies+"/p", nil); err != nil {
				calm = 0
				continue
			}
			calm++
		}
		h.lock.Lock()
		defer h.lock.Unlock()
		delete(h.live, l)
		h.changed.Broadcast()
	})
}

// send waits until the history has the request answered.
func (h *history) send(l *leader, effect func() error) error {
	c := &call{by: l, effect: effect, answer: make(chan error, 1)}
	h.lock.Lock()
	if !h.live[l] {
		h.lock.Unlock()
		return errKilled
	}
	h.calls = append(h.calls, c)
	h.changed.Broadcast()
	answer := c.answer // Another one takes its place when the process is killed.
	h.lock.Unlock()
	return <-answer
}

// step is one thing that happens. It reports whether anything can.
func (h *history) step() bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	for !h.waiting() {
		h.changed.Wait()
	}
	if len(h.calls) == 0 {
		return false
	}
	if i := h.random.IntN(40); !h.quiet {
		switch {
		case i == 0:
			h.kill()
			return true
		case (i < 3 || len(h.live) == 0) && h.leaders < len(counts{}.seen)-1:
			h.lock.Unlock()
			h.begin()
			h.lock.Lock()
			return true
		case i == 3:
			h.user()
			return true
		}
	}
	h.move(h.random.IntN(len(h.calls)))
	return true
}

// waiting reports whether each process that lives waits for an answer.
func (h *history) waiting() bool {
	for l := range h.live {
		if !slices.ContainsFunc(h.calls, func(c *call) bool { return c.by == l }) {
			return false
		}
	}
	return true
}

// move lets a call take effect, or its answer come back. Either may be lost.
func (h *history) move(i int) {
	c := h.calls[i]
	lost := !h.quiet && h.random.IntN(30) == 0
	if !c.arrived && !lost {
		h.mu.Lock()
		c.arrived, c.result = true, c.effect()
		h.mu.Unlock()
		if h.live[c.by] {
			return
		}
	}
	h.calls = slices.Delete(h.calls, i, i+1)
	if lost {
		c.result = errNoAnswer
	}
	c.answer <- c.result
}

// kill kills a process. Its requests may still arrive.
func (h *history) kill() {
	for _, l := range slices.SortedFunc(maps.Keys(h.live), func(a, b *leader) int { return a.id - b.id })[:min(1, len(h.live))] {
		delete(h.live, l)
		for _, c := range h.calls {
			if c.by == l {
				c.answer <- errKilled
				c.answer = make(chan error, 1) // For the answer that never comes.
			}
		}
	}
}

// user deletes an object, or touches the policy.
func (h *history) user() {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := slices.Sorted(maps.Keys(h.objects))
	name := names[h.random.IntN(len(names))]
	if !strings.HasPrefix(name, "tmp-") || h.objects[name].DeletionTimestamp != nil {
		base := h.policy.GetResourceVersion()
		h.policy.SetLabels(map[string]string{"touched": base})
		h.written()
		h.record(asked{what: "touch", base: base, next: new(h.policy.GetResourceVersion())}, done)
		return
	}
	object := setOf(h.objects[name].UID)
	h.remove(name)
	h.record(asked{what: "remove", leader: -1, object: object}, done)
}

// record records a request that is answered at once.
func (h *history) record(a asked, out string) {
	h.time += 2
	h.operations = append(h.operations, porcupine.Operation{Input: a, Output: out, Call: h.time, Return: h.time + 1})
}

// observe records a request of a process from when it is sent until it is answered.
func (h *history) observe(l *leader, r *request) func(error) {
	a := asked{what: r.verb, leader: l.id}
	if r.verb == "status" {
		h.readStatus(l, r, &a)
	} else {
		a.object = setOf(r.uid)
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.time += 2
	i := len(h.operations)
	h.operations = append(h.operations, porcupine.Operation{ClientId: l.id, Input: a, Call: h.time, Output: unknown, Return: math.MaxInt64})
	return func(err error) {
		out := done
		switch {
		case apierrors.IsNotFound(err):
			out = gone
		case apierrors.IsConflict(err):
			out = conflict
		case err != nil:
			return // It may take effect at any time, or never.
		}
		h.lock.Lock()
		defer h.lock.Unlock()
		h.time += 2
		h.operations[i].Output, h.operations[i].Return = out, h.time
	}
}

// readStatus reads what a status says, beside the one that it replaces.
func (h *history) readStatus(l *leader, r *request, a *asked) {
	a.base, a.next, a.deleted = r.base, &r.next, r.status.Deleted
	if r.status.LastRun != nil {
		a.lost = r.status.LastRun.Lost
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := map[string]bool{}
	before := h.statuses[r.base]
	for _, page := range before.UncountedDeletions {
		left[page.Report] = true
	}
	for _, page := range r.status.UncountedDeletions {
		a.announced |= setOf(page.UIDs...)
		delete(left, page.Report)
	}
	for name := range left {
		if page := l.sentPages[name]; page != nil && a.deleted != before.Deleted {
			for i := range page.Objects {
				if result := page.Objects[i].Result; result == v1alpha1.ItemDeleted || result == v1alpha1.ItemGone {
					a.counted |= setOf(page.Objects[i].UID)
				}
			}
		}
	}
}

// explain prints the longest part of a history that can be explained, and the operations after it.
func (h *history) explain(info porcupine.LinearizationInfo) string {
	var text strings.Builder
	longest := []int{}
	for _, partial := range info.PartialLinearizations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	state := counter.Init()
	print := func(i int) {
		op := h.operations[i]
		fmt.Fprintf(&text, "%d-%d %+v -> %s\n", op.Call, op.Return, op.Input, op.Output)
	}
	for _, i := range longest {
		print(i)
		_, state = counter.Step(state, h.operations[i].Input, h.operations[i].Output)
	}
	fmt.Fprintf(&text, "%+v, which does not explain one of:\n", state)
	for i := range h.operations {
		if !slices.Contains(longest, i) {
			print(i)
		}
	}
	return text.String()
}
