package tally

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Histories as TestModel plays them, as all processes see them: killed ones, and one that seemed to
// be dead. A sequential counter explains what they see. It lists a Pod before the Pod loses its
// finalizer, and counts it exactly once, after that (S7). -rapid.checks checks more of them.
func TestCountsAreLinearizable(t *testing.T) {
	for range 2 {
		rapid.Check(t, func(t *rapid.T) {
			m := &model{t: t, world: newWorld(t.Fatalf)}
			h := &history{}
			m.world.history = h
			m.world.addTally("a", "a")
			m.process = m.world.process()
			m.world.around = m.around
			for range rapid.IntRange(1, 120).Draw(t, "steps") {
				m.act()
			}
			m.end()
			for uid, by := range m.world.owed {
				if m.exists(string(by)) {
					h.begin(&change{pod: uid, ends: true, took: true})(nil)
				}
			}
			if result := porcupine.CheckOperationsTimeout(counter, h.operations, time.Minute); result != porcupine.Ok {
				for _, op := range h.operations {
					t.Logf("%d-%d %s -> %v", op.Call, op.Return, op.Input, op.Output)
				}
				t.Fatalf("the history is %s", result)
			}
		})
	}
}

// change is a request that changes the counts, or the finalizer of a Pod.
type change struct {
	// tally is the PodTally whose status is replaced.
	tally         types.UID
	before, after ledger
	gone          bool // it is deleted, and lists nothing any more
	// pod gets or loses the finalizer, or must be counted at the end.
	pod        types.UID
	adds, ends bool
	// took: it has taken effect.
	took bool
}

func (c *change) String() string {
	switch {
	case c.tally != "" && !c.gone:
		return fmt.Sprintf("%s from %+v to %+v (%v)", c.tally, c.before, c.after, c.took)
	case c.gone:
		return fmt.Sprintf("%s deleted with %+v", c.tally, c.before)
	case c.ends:
		return fmt.Sprintf("%s must be counted", c.pod)
	}
	return fmt.Sprintf("%s with the finalizer: %v (%v)", c.pod, c.adds, c.took)
}

// history is what the processes ask for, and what they are answered.
type history struct {
	time       int64
	operations []porcupine.Operation
}

// begin records a request, and returns what records its answer. A request without one may take
// effect at any time after it.
func (h *history) begin(of *change) func(error) {
	if h == nil {
		return func(error) {}
	}
	h.time += 2
	at := len(h.operations)
	h.operations = append(h.operations, porcupine.Operation{Input: of, Output: false, Call: h.time, Return: math.MaxInt64})
	return func(err error) {
		if err != nil && of.took {
			return // The answer was lost.
		}
		h.time += 2
		h.operations[at].Output, h.operations[at].Return = of.took, h.time
	}
}

// counter is what the counts promise, of one Pod or of one PodTally.
var counter = porcupine.Model{
	Partition: partition,
	Init:      func() any { return counts{} },
	Step: func(state, input, _ any) (bool, any) {
		one, c := input.(part), state.(counts)
		switch {
		case !one.took, one.gone && one.of == one.tally:
			return true, c
		case one.tally != "" && one.of == one.tally:
			return c.number(one.change)
		default:
			return c.pod(one)
		}
	},
}

// part is a change as it concerns a Pod or a PodTally.
type part struct {
	*change
	of types.UID
}

// counts is the state of a Pod, or the numbers of a PodTally.
type counts struct {
	held, counted     bool
	listed            types.UID
	succeeded, failed int64
}

// pod is what becomes of one Pod.
func (c counts) pod(one part) (bool, counts) {
	if one.tally == "" {
		if !one.ends {
			c.held = one.adds
		}
		return !one.ends || c.counted, c
	}
	was, is := lists(&one.before, one.of), lists(&one.after, one.of)
	switch {
	case one.gone:
		if c.listed == one.tally {
			c.listed = ""
		}
		return true, c
	case was && c.listed != one.tally:
		return false, c
	case was && !is:
		ok := !c.held && !c.counted
		c.listed, c.counted = "", true
		return ok, c
	case is:
		ok := !c.counted && (c.listed == "" || c.listed == one.tally)
		c.listed = one.tally
		return ok, c
	}
	return true, c
}

func lists(l *ledger, uid types.UID) bool {
	return slices.ContainsFunc(l.uncounted, func(one entry) bool { return one.uid == uid })
}

// number is what becomes of the numbers of a PodTally: they grow by what its status lists no more.
func (c counts) number(one *change) (bool, counts) {
	ok := c.succeeded == one.before.succeeded && c.failed == one.before.failed
	for _, of := range one.before.uncounted {
		switch {
		case lists(&one.after, of.uid):
		case of.outcome == succeeded:
			c.succeeded++
		default:
			c.failed++
		}
	}
	return ok && c.succeeded == one.after.succeeded && c.failed == one.after.failed, c
}

// partition has a history for each Pod and each PodTally.
func partition(all []porcupine.Operation) (out [][]porcupine.Operation) {
	parts := map[types.UID][]porcupine.Operation{}
	for _, op := range all {
		of := op.Input.(*change)
		concerned := map[types.UID]bool{of.pod: true, of.tally: true}
		for _, one := range append(slices.Clone(of.before.uncounted), of.after.uncounted...) {
			concerned[one.uid] = true
		}
		delete(concerned, "")
		for uid := range concerned {
			op.Input = part{of, uid}
			parts[uid] = append(parts[uid], op)
		}
	}
	for _, part := range parts {
		out = append(out, part)
	}
	return out
}
