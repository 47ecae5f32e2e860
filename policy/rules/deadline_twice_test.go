package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
)

func TestDeadlineTwice(t *testing.T) {
	both, profile := *trainJob, *trainJob
	profile.AnnotatedDeadline = false
	runtime := both
	runtime.RuntimeOf = "TrainJob"
	spec := func(seconds any) map[string]any { return map[string]any{"activeDeadlineSeconds": seconds} }
	for name, test := range map[string]struct {
		profile *policy.Profile
		object  map[string]any
		want    []string
	}{
		"both, the same":        {profile: &both, object: object("TrainJob", spec(int64(3600)), "active-deadline", "60m")},
		"unreadable annotation": {profile: &both, object: object("TrainJob", spec(int64(3600)), "active-deadline", "soon"), want: []string{"error " + at("active-deadline") + `: "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d)`}},
		"unreadable field":      {profile: &both, object: object("TrainJob", spec("soon"), "active-deadline", "1h")}, // readable-value says so.
		"a runtime":             {profile: &runtime, object: object("TrainingRuntime", spec(int64(3600)), "active-deadline", "2h")},
		"a kind without":        {profile: &profile, object: object("TrainJob", spec(int64(3600)), "active-deadline", "2h")},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, judge(deadlineTwice, test.profile, Request{}, nil, test.object), test.want)
		})
	}
}
