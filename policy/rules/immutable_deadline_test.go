package rules

import (
	"testing"
)

func TestImmutableDeadline(t *testing.T) {
	with := func(seconds int64) map[string]any { return map[string]any{"activeDeadlineSeconds": seconds} }
	for name, row := range map[string]struct {
		old, new map[string]any
		want     []string
	}{
		"the same": {object("TrainJob", with(60)), object("TrainJob", with(60)), nil},
		"changed": {object("TrainJob", with(60)), object("TrainJob", with(90)),
			[]string{"error spec.activeDeadlineSeconds: cannot be changed after creation, from 60 to 90: leave it, or create a new TrainJob"}},
		"added": {object("TrainJob", nil), object("TrainJob", with(90)),
			[]string{"error spec.activeDeadlineSeconds: cannot be added after creation: leave it out, or create a new TrainJob with it"}},
		"annotation removed": {object("TrainJob", nil, "active-deadline", "1h"), object("TrainJob", nil),
			[]string{"error " + at("active-deadline") + ": cannot be removed after creation: leave it at 1h, or create a new TrainJob without it"}},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, judge(immutableDeadline, trainJob, Request{}, row.old, row.new), row.want)
		})
	}
	equal(t, judge(immutableDeadline, trainJob, Request{}, nil, object("TrainJob", with(60))), nil)
}
