package webhookconfig

import (
	"testing"

	"curfew.dev/curfew/policy/platform"
)

// While a runtime has a deadline or a TTL, every new object that uses a runtime is sent, wherever it is
// created: the runtime may be the one. Otherwise only what carries a key of Curfew's is.
func TestObjectsThatARuntimeSaysSomethingAbout(t *testing.T) {
	var trainJob *platform.Served
	all := builtinKinds(t)
	for i := range all {
		if all[i].Kind.Kind == "TrainJob" {
			trainJob = &all[i]
		}
	}
	uses := object(t, `{metadata: {name: a}, spec: {runtimeRef: {name: torch}}}`)
	for name, c := range map[string]struct {
		deadline bool
		object   map[string]any
		want     bool
	}{
		"no runtime has one":         {false, uses, false},
		"a runtime has one":          {true, uses, true},
		"without a runtime":          {true, object(t, `{metadata: {name: a}, spec: {}}`), false},
		"without a runtime, its key": {true, object(t, `{metadata: {annotations: {curfew.dev/active-deadline: 1h}}, spec: {}}`), true},
		"its key":                    {false, object(t, `{metadata: {annotations: {curfew.dev/active-deadline: 1h}}}`), true},
	} {
		trainJob.RuntimeSets = c.deadline
		kind := newKind(trainJob, false)
		for to, expression := range map[string]string{"defaulted": kind.mayBeDefaulted().Expression, "validated": kind.touched()} {
			if got := condition(t, expression, c.object, nil); got != c.want {
				t.Errorf("%s, to be %s: sent %v, want %v", name, to, got, c.want)
			}
		}
	}
}
