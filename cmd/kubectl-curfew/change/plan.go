package change

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// Subject is an object that is to be changed, as it is now.
type Subject struct {
	Object    map[string]any
	Explained *policy.Explanation
	// Alias says that the label cleanup.kyverno.io/ttl is understood.
	Alias bool
	Now   time.Time
}

// Plan is a change that was tried and does what it should.
type Plan struct {
	// Patch is a JSON merge patch, without preconditions.
	Patch map[string]any
	// Before and After are when the object goes.
	Before, After Fate
	// Warnings are what to know before it is done, admission's among them.
	Warnings []string
}

// Fate is when an object goes.
type Fate struct {
	// Expiry is zero where the object stays, or where it has not finished, or does not say when.
	Expiry time.Time
	// After is how long after it finishes, and AfterFailure where that differs; nil where that does not decide.
	After, AfterFailure *policy.TTL
}

// NothingError says that there is nothing to do for an object, which is no failure where it is one of many.
type NothingError struct{ reason string }

// Error says why.
func (e *NothingError) Error() string { return e.reason }

func nothing(format string, values ...any) error {
	return &NothingError{fmt.Sprintf(format, values...)}
}

// facts reads the object of a subject.
func (s *Subject) facts() *policy.Facts { return s.Explained.Facts }

// FateOf is when an object goes by an explanation.
func FateOf(e *policy.Explanation) Fate {
	if verdict, ok := e.Goes(); ok {
		return Fate{Expiry: verdict.Expiry}
	}
	if e.ByTTL.Err != nil || !e.Facts.Profile.Finishable() {
		return Fate{}
	}
	if e.Facts.Finished && e.ByTTL.Action != policy.RecordFinish {
		return Fate{}
	}
	if e.Facts.Protected() || e.Facts.CurfewsOwn() || e.Facts.IsPod() && e.Facts.AlwaysRestarts() {
		return Fate{} // whenever it finishes, if it ever does
	}
	after := func(value policy.Value) *policy.TTL {
		if !value.Set || value.Err != nil {
			return nil
		}
		return &value.TTL
	}
	if e.Facts.Finished {
		return Fate{After: after(e.Effective.TTL(e.Facts.Outcome))}
	}
	out := Fate{After: after(e.Effective.Succeeded)}
	failed := after(e.Effective.Failed)
	switch {
	case out.After == nil && failed == nil, out.After != nil && out.After.Never && failed != nil && failed.Never:
		return Fate{}
	case out.After == nil:
		out.After = &policy.TTL{Never: true}
	}
	if failed == nil {
		failed = &policy.TTL{Never: true}
	}
	if *failed != *out.After {
		out.AfterFailure = failed
	}
	return out
}

// speaks reports whether a verdict gives an expiry.
func speaks(verdict policy.Verdict) bool {
	return verdict.Action == policy.Wait || verdict.Action == policy.Delete
}

// patched is a copy of the object as the patch makes it.
func (s *Subject) patched(patch map[string]any) (map[string]any, *policy.Facts) {
	changed, _ := merged(runtime.DeepCopyJSONValue(s.Object), patch).(map[string]any)
	facts := policy.FactsOfObject(s.facts().Profile, changed)
	facts.Namespace = s.facts().Namespace
	return changed, facts
}

// try makes a plan of a patch: it is applied to a copy, which is explained and reviewed as the cluster would.
func (s *Subject) try(patch map[string]any, warnings ...string) (*Plan, error) {
	changed, facts := s.patched(patch)
	if outdated := policy.Outdated(s.facts(), facts); len(outdated) > 0 {
		for _, key := range outdated { // The value is no longer the default that the stamp names.
			set(patch, annotation(key), nil)
		}
		changed, facts = s.patched(patch)
	}
	after := policy.Explain(facts, s.Explained.Scope, policy.Question{Now: s.Now, Alias: s.Alias})
	plan := &Plan{Patch: patch, Before: FateOf(s.Explained), After: FateOf(after), Warnings: warnings}
	decision := rules.Review(&rules.Request{
		Operation: rules.Update, Object: changed, Old: s.Object, Facts: facts, OldFacts: s.facts(),
		Scope: s.Explained.Scope, Effective: &after.Effective, Now: s.Now,
	})
	if !decision.Allowed() {
		return nil, errors.New("would be refused: " + decision.Reason())
	}
	for _, warning := range decision.Warnings(false) {
		plan.Warnings = append(plan.Warnings, strings.TrimPrefix(warning, "curfew: "))
	}
	for _, verdicts := range [][2]policy.Verdict{{s.Explained.ByTTL, after.ByTTL}, {s.Explained.ByLabel, after.ByLabel}} {
		if before, now := verdicts[0].Err, verdicts[1].Err; now != nil && before == nil {
			return nil, fmt.Errorf("would be kept: %w", now)
		}
	}
	return plan, nil
}

// merged applies a JSON merge patch (RFC 7396).
func merged(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	into, ok := target.(map[string]any)
	if !ok {
		into = map[string]any{}
	}
	for name, value := range fields {
		if value == nil {
			delete(into, name)
		} else {
			into[name] = merged(into[name], value)
		}
	}
	return into
}

// set puts a value into a patch at a path.
func set(patch map[string]any, path policy.FieldPath, value any) {
	for _, name := range path[:len(path)-1] {
		next, ok := patch[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			patch[name] = next
		}
		patch = next
	}
	patch[path[len(path)-1]] = value
}

func annotation(key string) policy.FieldPath { return policy.FieldPath{"metadata", "annotations", key} }

func label(key string) policy.FieldPath { return policy.FieldPath{"metadata", "labels", key} }

// untouchable says why nothing can be changed about an object any more.
func (s *Subject) untouchable() error {
	if s.facts().Deleting {
		return errors.New("is being deleted: that cannot be taken back")
	}
	return nil
}
