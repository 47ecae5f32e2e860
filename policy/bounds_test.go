package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func boundsOf(name string, pairs ...string) lifetime.Bounds {
	return resolution.ParseNamespace(name, annotated(pairs...), nil).Bounds
}

func TestCheckTTL(t *testing.T) {
	const unreadable = `curfew.dev/max-ttl of namespace "ci" cannot be read: "?" is not a duration: ` + fix
	for name, test := range map[string]struct {
		bounds lifetime.Bounds
		ttl    string
		want   string
	}{
		"no bounds":           {ttl: "0"},
		"at the minimum":      {boundsOf("ci", "min-ttl", "1h"), "1h", ""},
		"below the minimum":   {boundsOf("ci", "min-ttl", "1h"), "59m59s", `59m59s is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`},
		"never and a minimum": {boundsOf("ci", "min-ttl", "1h"), "never", ""},
		"at the maximum":      {boundsOf("ci", "max-ttl", "1h"), "1h", ""},
		"above the maximum":   {boundsOf("ci", "max-ttl", "1h"), "1h1s", `1h1s is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`},
		"never and a maximum": {boundsOf("ci", "max-ttl", "1h"), "never", `never is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`},
		"unreadable":          {boundsOf("ci", "max-ttl", "?"), "1h", unreadable},
		"deadline's bound":    {boundsOf("ci", "max-deadline", "1h"), "2h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ttl, err := lifetime.ParseTTL(test.ttl)
			if err != nil {
				t.Fatal(err)
			}
			if got := errText(test.bounds.CheckTTL(ttl)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestCheckDeadline(t *testing.T) {
	bounds := boundsOf("ci", "min-deadline", "1m", "max-deadline", "1h", "max-ttl", "1s")
	for seconds, want := range map[int]string{
		59:   `59s is below curfew.dev/min-deadline 1m of namespace "ci": use 1m or more`,
		60:   "",
		3600: "",
		3601: `1h1s is above curfew.dev/max-deadline 1h of namespace "ci": use 1h or less`,
	} {
		if got := errText(bounds.CheckDeadline(lifetime.TTL{After: time.Duration(seconds) * time.Second})); got != want {
			t.Errorf("%d: got %q, want %q", seconds, got, want)
		}
	}
	none := lifetime.TTL{Never: true}
	if got, want := errText(bounds.CheckDeadline(none)), `no deadline is above curfew.dev/max-deadline 1h of namespace "ci": use 1h or less`; got != want {
		t.Errorf("none: got %q, want %q", got, want)
	}
	if got := errText(boundsOf("ci", "min-deadline", "1m").CheckDeadline(none)); got != "" {
		t.Errorf("none is not below a minimum: %q", got)
	}
	if got := errText(boundsOf("ci", "max-deadline", "?").CheckDeadline(none)); got != `curfew.dev/max-deadline of namespace "ci" cannot be read: "?" is not a duration: `+fix {
		t.Errorf("none, and a bound that cannot be read: %q", got)
	}
}

func TestClampTTL(t *testing.T) {
	for name, test := range map[string]struct {
		bounds lifetime.Bounds
		ttl    string
		want   string
	}{
		"no bounds":                        {lifetime.Bounds{}, "5m", "5m"},
		"above":                            {boundsOf("ci", "max-ttl", "1h"), "5h", "1h"},
		"never under a maximum":            {boundsOf("ci", "max-ttl", "1h"), "never", "1h"},
		"never over a minimum":             {boundsOf("ci", "min-ttl", "1h"), "never", "never"},
		"contradiction: longer is safer":   {boundsOf("ci", "min-ttl", "2h", "max-ttl", "1h"), "5m", "2h"},
		"unreadable minimum moves nothing": {boundsOf("ci", "min-ttl", "?"), "5m", "5m"},
		"unreadable maximum moves nothing": {boundsOf("ci", "max-ttl", "?"), "never", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			ttl, err := lifetime.ParseTTL(test.ttl)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.bounds.TTL.Clamp(ttl).String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if got := boundsOf("ci", "min-deadline", "1h").Deadline.Clamp(lifetime.TTL{After: time.Second}); got.After != time.Hour {
		t.Errorf("deadline clamped to %v, want 1h", got)
	}
}

// The inner bounds may narrow the outer ones and never widen them; an unreadable one of either
// keeps.
func TestNarrow(t *testing.T) {
	for name, test := range map[string]struct {
		outer, inner []string
		ttl, want    string
	}{
		"both unreadable":                     {outer: []string{"max-ttl", "?"}, inner: []string{"max-ttl", "??"}, ttl: "2h", want: `curfew.dev/max-ttl of namespace "outer" cannot be read: "?" is not a duration: ` + fix},
		"inner narrows the maximum":           {outer: []string{"max-ttl", "3h"}, inner: []string{"max-ttl", "1h"}, ttl: "2h", want: `2h is above curfew.dev/max-ttl 1h of namespace "inner": use 1h or less`},
		"inner widens no maximum":             {outer: []string{"max-ttl", "1h"}, inner: []string{"max-ttl", "3h"}, ttl: "2h", want: `2h is above curfew.dev/max-ttl 1h of namespace "outer": use 1h or less`},
		"inner narrows the minimum":           {outer: []string{"min-ttl", "1m"}, inner: []string{"min-ttl", "1h"}, ttl: "30m", want: `30m is below curfew.dev/min-ttl 1h of namespace "inner": use 1h or more`},
		"inner widens no minimum":             {outer: []string{"min-ttl", "1h"}, inner: []string{"min-ttl", "1m"}, ttl: "30m", want: `30m is below curfew.dev/min-ttl 1h of namespace "outer": use 1h or more`},
		"unreadable outer":                    {outer: []string{"max-ttl", "?"}, inner: []string{"max-ttl", "3h"}, ttl: "2h", want: `curfew.dev/max-ttl of namespace "outer" cannot be read: "?" is not a duration: ` + fix},
		"unreadable inner":                    {outer: []string{"max-ttl", "3h"}, inner: []string{"max-ttl", "?"}, ttl: "2h", want: `curfew.dev/max-ttl of namespace "inner" cannot be read: "?" is not a duration: ` + fix},
		"unreadable outer minimum":            {outer: []string{"min-ttl", "?"}, inner: []string{"min-ttl", "1h"}, ttl: "2h", want: `curfew.dev/min-ttl of namespace "outer" cannot be read: "?" is not a duration: ` + fix},
		"unreadable inner minimum":            {outer: []string{"min-ttl", "1h"}, inner: []string{"min-ttl", "?"}, ttl: "2h", want: `curfew.dev/min-ttl of namespace "inner" cannot be read: "?" is not a duration: ` + fix},
		"unreadable inner lifts no outer":     {outer: []string{"max-ttl", "1h"}, inner: []string{"max-ttl", "?"}, ttl: "2h", want: `2h is above curfew.dev/max-ttl 1h of namespace "outer": use 1h or less`},
		"unreadable outer lifts no inner":     {outer: []string{"max-ttl", "?"}, inner: []string{"max-ttl", "1h"}, ttl: "2h", want: `2h is above curfew.dev/max-ttl 1h of namespace "inner": use 1h or less`},
		"unreadable minimum lifts no maximum": {outer: []string{"min-ttl", "?"}, inner: []string{"max-ttl", "1h"}, ttl: "2h", want: `2h is above curfew.dev/max-ttl 1h of namespace "inner": use 1h or less`},
		"unreadable maximum lifts no minimum": {outer: []string{"min-ttl", "1h"}, inner: []string{"max-ttl", "?"}, ttl: "5m", want: `5m is below curfew.dev/min-ttl 1h of namespace "outer": use 1h or more`},
		"never is below no minimum":           {outer: []string{"min-ttl", "?"}, ttl: "never"},
		"one of each, and both right":         {outer: []string{"min-ttl", "1h"}, inner: []string{"max-ttl", "3h"}, ttl: "2h"},
	} {
		t.Run(name, func(t *testing.T) {
			ttl, err := lifetime.ParseTTL(test.ttl)
			if err != nil {
				t.Fatal(err)
			}
			got := errText(boundsOf("outer", test.outer...).Narrow(boundsOf("inner", test.inner...)).CheckTTL(ttl))
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// An unreadable bound keeps an object, whatever further bounds follow.
func TestNarrowRemembersWhatCannotBeRead(t *testing.T) {
	bounds := boundsOf("a", "max-ttl", "?").Narrow(boundsOf("b", "max-ttl", "3h", "min-deadline", "?")).Narrow(boundsOf("c", "max-ttl", "1h", "min-deadline", "1m")).Narrow(lifetime.Bounds{})
	if err := bounds.CheckTTL(lifetime.TTL{After: 2 * time.Hour}); !lifetime.Violated(err) {
		t.Errorf("above the readable bound: %v", err)
	}
	if err := bounds.CheckTTL(lifetime.TTL{After: time.Minute}); err == nil || lifetime.Violated(err) {
		t.Errorf("within the readable bound: %v", err)
	}
	if err := bounds.CheckDeadline(lifetime.TTL{After: time.Hour}); err == nil || lifetime.Violated(err) {
		t.Errorf("a deadline: %v", err)
	}
	if got := len(bounds.Settings()); got != 4 {
		t.Errorf("%d settings, want 4", got)
	}
}

// A default that was stamped is raised to a minimum, and kept beside one that cannot be read.
func TestStampedDefaultBesideAnUnreadableMinimum(t *testing.T) {
	facts := &policy.Facts{Profile: policy.JobProfile, Namespace: "ci", NativeTTL: lifetime.NativeField{Set: true, Seconds: 60}, Annotations: map[string]string{wellknown.AnnotationTTLSource: "namespace/ci"}}
	scope := &resolution.Scope{Namespace: namespaceOf("min-ttl", "1h"), Policies: []*resolution.PlatformPolicy{{Name: "broken", Bounds: boundsOf("x", "min-ttl", "?")}}}
	effective := resolution.Resolve(facts, scope)
	if got := effective.Succeeded; got.Err == nil || got.TTL.After != time.Hour {
		t.Errorf("TTL %v, error %v; want the minimum of 1h and an error about the broken policy", got.TTL, got.Err)
	}
}

func TestContradictions(t *testing.T) {
	for name, test := range map[string]struct {
		bounds lifetime.Bounds
		want   string
	}{
		"one value":  {bounds: boundsOf("ci", "min-ttl", "1h", "max-ttl", "1h")},
		"ttl":        {boundsOf("ci", "min-ttl", "2h", "max-ttl", "1h"), `2h is above curfew.dev/max-ttl 1h: lower it, or raise the other`},
		"deadline":   {boundsOf("ci", "min-deadline", "2h", "max-deadline", "1h"), `2h is above curfew.dev/max-deadline 1h: lower it, or raise the other`},
		"unreadable": {bounds: boundsOf("ci", "min-ttl", "2h", "max-ttl", "?")},
		"across":     {boundsOf("platform", "max-ttl", "1h").Narrow(boundsOf("ci", "min-ttl", "2h")), `2h is above curfew.dev/max-ttl 1h of namespace "platform": lower it, or raise the other`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, pair := range test.bounds.Contradictions() {
				got += pair.At(pair.Low)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestContradictionAtTheUpperBound(t *testing.T) {
	pair := boundsOf("platform", "min-ttl", "2h").Narrow(boundsOf("ci", "max-ttl", "1h")).Contradictions()[0]
	if got, want := pair.At(pair.High), `1h is below curfew.dev/min-ttl 2h of namespace "platform": raise it, or lower the other`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A removed TTL beside a maximum that cannot be read is reported.
func TestRemovedTTLBesideAnUnreadableMaximum(t *testing.T) {
	facts := &policy.Facts{Profile: policy.JobProfile, Namespace: "ci", Annotations: map[string]string{wellknown.AnnotationTTLSource: "namespace/ci"}}
	if got := resolution.Resolve(facts, &resolution.Scope{Namespace: namespaceOf("max-ttl", "?")}).Succeeded; !got.Set || got.Err == nil {
		t.Errorf("not reported: %+v", got)
	}
}
