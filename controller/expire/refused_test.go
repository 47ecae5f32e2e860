package expire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/deletion"
)

const (
	gaugeRefused = `curfew_blocked_objects{reason="DeleteRefused"}`
	gaugeOverdue = "curfew_overdue_objects"
	gaugeOldest  = "curfew_oldest_overdue_seconds"
)

// A DELETE that the API server will never allow is reported, again while Events would be forgotten,
// tried for ever, and not counted as overdue for ever.
func TestObjectThatMayNeverBeDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		answer  Response
		blocked bool
	}{
		"an admission policy": {Response{Code: 422, Origin: deletion.FromAdmission, Reason: "Invalid",
			Message: `jobs.batch "bad" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: no`}, true},
		"a webhook, by a code of its choice": {Response{Code: 500, Origin: deletion.FromAdmission, Message: `admission webhook "keep" denied the request: no`}, true},
		"the API server's own rules":         {Response{Code: 403, Reason: "Forbidden", Message: `namespaces "bad" is forbidden: this namespace may not be deleted`}, true},
		"a webhook that does not answer":     {Response{Code: 500, Origin: deletion.FromAdmission, Message: `Internal error occurred: failed calling webhook "keep": timeout`}, false},
		"no answer":                          {Response{Err: context.DeadlineExceeded}, false},
		"too many requests":                  {Response{Code: http.StatusTooManyRequests}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var blocked []BlockedObject
			w, outcomes, _ := ready(t, func(o *Options) { o.OnBlocked = func(b BlockedObject) { blocked = append(blocked, b) } })
			w.dueSoon(1, "good", nil)
			w.dueSoon(1, "bad", nil)
			refuses := true
			w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
				if refuses && r.Name == "bad0" {
					w.date()
					return test.answer
				}
				return w.Delete(ctx, r)
			})
			w.every(40*60, time.Second)
			n := map[bool]float64{true: 1}
			for gauge, want := range map[string]float64{gaugeRefused: n[test.blocked], gaugeOverdue: n[!test.blocked]} {
				if got := metricValue(t, w.engine, gauge); got != want {
					t.Errorf("%s is %v, want %v", gauge, got, want)
				}
			}
			if got := metricValue(t, w.engine, gaugeOldest); (got == 0) != test.blocked {
				t.Errorf("%s is %v", gaugeOldest, got)
			}
			if test.blocked && (len(blocked) != 2 || blocked[0].Reason != ReasonDeleteRefused || !strings.Contains(blocked[0].Message, test.answer.Message)) {
				t.Errorf("%+v: want it reported twice in 40 minutes", blocked)
			}
			if !test.blocked && len(blocked) != 0 {
				t.Errorf("reported %+v, want nothing: the object is not at fault", blocked)
			}
			refuses = false
			w.every(10*60, time.Second)
			if n := count(*outcomes); n[Deleted] != 2 || metricValue(t, w.engine, gaugeRefused) != 0 {
				t.Errorf("%v: want it deleted once that is allowed", n)
			}
		})
	}
}

// While the clock is wrong nothing is deleted. Due objects still count as overdue, by the API
// server's time or by the monotonic time since.
func TestOverdueWhileTheClockIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		off     time.Duration
		answers bool // the API server tells its time after the jump
	}{
		"an hour behind, and known":           {-time.Hour, true},
		"an hour behind, and nothing answers": {-time.Hour, false},
		"an hour ahead, and known":            {time.Hour, true},
		"an hour ahead, and nothing answers":  {time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			w.dueSoon(2, "j", nil)
			x := w.create("later", 30*time.Minute, false)
			w.finish(x)
			w.deliverAll()
			metricValue(t, w.engine, gaugeOverdue)
			w.jump(test.off)
			w.advance(10 * time.Second)
			scrape := func() float64 {
				if test.answers {
					metricValue(t, w.engine, gaugeOverdue) // notices the jump
					w.date()
				}
				return metricValue(t, w.engine, gaugeOverdue)
			}
			if got := scrape(); got != 2 {
				t.Errorf("%v overdue, want the two that are", got)
			}
			if got := metricValue(t, w.engine, gaugeOldest); got < 7 || got > 11 {
				t.Errorf("the oldest is %vs overdue, want some 9s", got)
			}
			if len(*outcomes) != 0 {
				t.Errorf("%v while the clock is wrong", count(*outcomes))
			}
		})
	}
}

// An error of a live judgement counts as if the action had got it, but its 404 is about another
// object.
func TestFailedJudgementsAreClassified(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, test := range map[string]struct {
		err   error
		want  Ending
		code  int
		after time.Duration
	}{
		"forbidden":    {apierrors.NewForbidden(jobs, "j", errors.New("no")), Refused, 403, 0},
		"too many":     {apierrors.NewTooManyRequests("slow down", 4), Throttled, 429, 4 * time.Second},
		"timeout":      {context.DeadlineExceeded, Failed, 0, 0},
		"not found":    {apierrors.NewNotFound(jobs, "j"), Failed, 500, 0},
		"conflict":     {apierrors.NewConflict(jobs, "j", errors.New("changed")), Failed, 500, 0},
		"server error": {apierrors.NewInternalError(errors.New("x")), Failed, 500, 0},
		"its own":      {errors.New("it cannot tell"), Failed, codeUnjudged, 0},
	} {
		var res attemptResult
		res.unjudged(fmt.Errorf("wrapped: %w", test.err))
		if res.reported != test.want || res.Code != test.code || res.After != test.after || !errors.Is(res.Err, test.err) {
			t.Errorf("%s: %s, code %d, after %s, error %v; want %+v", name, res.reported, res.Code, res.After, res.Err, test)
		}
	}
}
