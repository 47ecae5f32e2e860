package expression_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
)

// Texts that are linted never make admission wait for a slot, nor the other way round. Lint waits
// for its own slots.
func TestLintTakesNoSlotOfAdmission(t *testing.T) {
	admission := func() error {
		_, err := expression.NewCompiler(1).Compile("object.metadata.name == 'a'", expression.ScopePolicy, expression.ResultBool)
		return err
	}
	known, err := platform.New(nil)
	must(t, err)
	linted := func() error {
		const text = "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: a}, spec: {match: {matchConditions: " +
			"[{name: a, expression: object.metadata.name == 'a'}]}, defaults: {ttl: {afterFinished: 1d}}}}"
		documents, errs := lint.Read(lint.Input{Data: []byte(text)}, lint.Limits{})
		if len(errs) > 0 {
			return errs[0]
		}
		_, err := lint.Lint(t.Context(), documents, lint.Options{Source: platform.Offline{Platform: known.Snapshot()}, Now: time.Unix(1000, 0)})
		return err
	}
	for name, c := range map[string]struct {
		taken       chan struct{}
		waits, runs func() error
	}{
		"lint":      {expression.Linting, linted, admission},
		"admission": {expression.Compiling, admission, linted},
	} {
		for range cap(c.taken) {
			c.taken <- struct{}{}
		}
		waiting := make(chan error, 1)
		go func() { waiting <- c.waits() }()
		running := make(chan error, 1)
		go func() { running <- c.runs() }()
		select {
		case err := <-running:
			if err != nil {
				t.Errorf("%s has taken all its slots: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s has taken all its slots, and the other one waits", name)
		}
		select {
		case <-waiting:
			t.Errorf("%s does not wait for its slots", name)
		default:
		}
		for range cap(c.taken) {
			<-c.taken
		}
		if err := <-waiting; err != nil {
			t.Errorf("%s, after it waited: %v", name, err)
		}
	}
}
