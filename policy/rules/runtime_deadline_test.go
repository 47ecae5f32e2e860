package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
)

func TestRuntimeDeadline(t *testing.T) {
	says := func(text string) Request {
		after, err := policy.ParseDuration(text)
		return Request{Scope: &policy.Scope{Runtime: &policy.RuntimePolicy{Name: "torch", Deadline: &policy.Setting{Text: text, TTL: policy.TTL{After: after}, Err: err}}}}
	}
	native := func(deadline time.Duration) map[string]any {
		return object("TrainJob", map[string]any{"activeDeadlineSeconds": int64(deadline / time.Second)})
	}
	annotation := object("TrainJob", nil, "active-deadline", "30m")
	for name, test := range map[string]struct {
		request Request
		object  map[string]any
		want    []string
	}{
		"no runtime":           {object: native(time.Hour)},
		"the runtime is mute":  {request: Request{Scope: &policy.Scope{Runtime: &policy.RuntimePolicy{Name: "torch"}}}, object: native(time.Hour)},
		"none of its own":      {request: says("1h"), object: object("TrainJob", nil)},
		"the same":             {request: says("1h"), object: native(time.Hour)},
		"longer":               {request: says("1h"), object: native(2 * time.Hour), want: []string{`warning spec.activeDeadlineSeconds: 2h is ignored: runtime "torch" says 1h; remove it`}},
		"shorter, which holds": {request: says("1h"), object: native(time.Minute)},
		"shorter, annotation":  {request: says("1h"), object: annotation, want: []string{"warning " + at("active-deadline") + `: 30m is ignored: runtime "torch" says 1h; remove it`}},
		"unreadable":           {request: says("soon"), object: native(time.Minute), want: []string{`warning spec.activeDeadlineSeconds: 1m is ignored: runtime "torch" says "soon", which cannot be read; remove it`}},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, judge(runtimeDeadline, trainJob, test.request, nil, test.object), test.want)
		})
	}
}
