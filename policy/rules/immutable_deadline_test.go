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
		"changed": {object("TrainJob", with(60)), object("TrainJob", with(90)), []string{"error spec.activeDeadlineSeconds: cannot be changed after creation, from 60 to 90: leave it, or create a new TrainJob"}},
		"annotation removed": {object("TrainJob", nil, "active-deadline", "1h"), object("TrainJob", nil),
			[]string{"error " + at("active-deadline") + ": cannot be removed after creation: leave it at 1h, or create a new TrainJob without it"}},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, judge(immutableDeadline, trainJob, Request{}, row.old, row.new), row.want)
		})
	}
	equal(t, judge(immutableDeadline, trainJob, Request{}, nil, object("TrainJob", with(60))), nil)
}

// A deadline that is a Go duration is what it comes to, not how it is spelt.
func TestImmutableDurationDeadline(t *testing.T) {
	with := func(text string) map[string]any { return object("PipelineRun", map[string]any{"timeout": text}) }
	equal(t, judge(immutableDeadline, pipelineRun, Request{}, with("60m"), with("1h0m0s")), nil)
	equal(t, judge(immutableDeadline, pipelineRun, Request{}, with("60m"), with("61m")), []string{"error spec.timeout: cannot be changed after creation, from 60m to 61m: leave it, or create a new PipelineRun"})
	equal(t, judge(immutableDeadline, pipelineRun, Request{}, with("0s"), with("1h")), []string{"error spec.timeout: cannot be changed after creation, from 0s to 1h: leave it, or create a new PipelineRun"})
	equal(t, judge(immutableDeadline, pipelineRun, Request{}, with("soon"), with("later")),
		[]string{"error spec.timeout: cannot be changed after creation, from soon to later: leave it, or create a new PipelineRun"})
}
