package expire

import (
	"testing"
	"time"
)

// After an outage, what a namespace says now may not have arrived yet. The object is judged live
// before it is deleted.
func TestBehindJudgesLive(t *testing.T) {
	behind := true
	w, outcomes, _ := ready(t, func(o *Options) { o.Behind = func() bool { return behind } })
	w.dueSoon(1, "j", nil)
	w.around.brake = keepBrake // the watch has not shown it yet
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 0 || n[Kept] != 1 {
		t.Errorf("behind: %v, want the live judgement to keep it", n)
	}
}
