package expire

import (
	"context"
	"testing"
	"time"
)

// An object changes before each DELETE is answered, as behind a slow DELETE webhook. It is reported
// once, counted while that lasts, tried for ever, and deleted when the changes end.
func TestObjectThatNeverRests(t *testing.T) {
	var blocked []BlockedObject
	w, outcomes, _ := ready(t, func(o *Options) { o.OnBlocked = func(b BlockedObject) { blocked = append(blocked, b) } })
	w.dueSoon(2, "j", nil)
	restless, ok := true, false
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if x := w.things[r.Name]; restless && r.Name == "j0" {
			w.changed(x)
			if ok = !ok; ok {
				w.deliverAll() // now and then the watch is quicker than the answer
			}
		}
		return w.Delete(ctx, r)
	})
	gauge := `curfew_blocked_objects{reason="DeleteConflict"}`
	w.after(time.Second)
	if got := metricValue(t, w.engine, gauge); got != 0 || len(blocked) != 0 {
		t.Errorf("%s %v and %d reports after one attempt", gauge, got, len(blocked))
	}
	w.every(600, time.Second)
	if len(blocked) != 1 || blocked[0].Object.Name != "j0" || blocked[0].Kind.Kind != "Job" || blocked[0].Reason != ReasonConflict || blocked[0].Message == "" {
		t.Fatalf("reports %+v, want one of j0", blocked)
	}
	if got := metricValue(t, w.engine, gauge); got != 1 {
		t.Errorf("%s %v, want 1", gauge, got)
	}
	if n := count(*outcomes); n[Conflict] < 15 || n[Deleted] != 1 {
		t.Errorf("%v in ten minutes", n)
	}
	restless = false
	w.after(backoffTrouble * 13 / 10)
	if n := count(*outcomes); n[Deleted] != 2 {
		t.Errorf("%v once it rests, want it deleted", n)
	}
	if got := metricValue(t, w.engine, gauge); got != 0 {
		t.Errorf("%s %v in the end", gauge, got)
	}
}
