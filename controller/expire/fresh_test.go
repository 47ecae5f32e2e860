package expire

import (
	"testing"
	"time"
)

// While a fresh look is on its way back the object changes, and the watch is quicker: what it told
// is not lost to the older state.
func TestWatchOvertakesTheFreshLook(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.defaultTTL = 5 * time.Second
	x := w.create("j", 0, false)
	w.finish(x)
	w.deliverAll()
	x.ttl = time.Hour // The watch has not told yet.
	w.changed(x)
	w.racingJudge = func(x *thing) {
		x.ttl = 0
		w.changed(x)
		w.deliverAll()
	}
	w.after(5 * time.Second)
	if len(*outcomes) != 0 {
		t.Fatalf("%+v although the state that was read is not due", *outcomes)
	}
	w.after(2 * time.Second)
	if n := count(*outcomes); n[Deleted] != 1 {
		t.Errorf("%v: want that it went, as it has been due for two seconds", n)
	}
}
