package change

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// Subject is an object to change, in its present state.
type Subject struct {
	Object    map[string]any
	Explained *judging.Explanation
	// Alias: the label cleanup.kyverno.io/ttl applies.
	Alias bool
	Now   time.Time
	// MayUpdate asks whether the user may update a LifecyclePolicy, by its name; nil if no one can
	// be asked.
	MayUpdate func(policy string) rules.Answer
	// Cleaned is the cleanup policy whose next run may delete the object; empty for none.
	Cleaned string
}

// Plan is a change that has been tried on a copy of the object.
type Plan struct {
	// Patch is a JSON merge patch, without preconditions.
	Patch         map[string]any
	Before, After Deletion
	// Warnings include the warnings of admission.
	Warnings []string
}

// Deletion is when an object is deleted.
type Deletion struct {
	// Expiry is zero where the object stays, or has not finished, or does not say when.
	Expiry time.Time
	// After is how long after it finishes, AfterFailure where that differs for a failure; nil where
	// no TTL decides.
	After, AfterFailure *lifetime.TTL
}

// NothingError says that an object is already as wanted, which is not a failure.
type NothingError struct{ reason string }

// Error implements error.
func (e *NothingError) Error() string { return e.reason }

// Nothing is a NothingError.
func Nothing(format string, values ...any) error {
	return &NothingError{fmt.Sprintf(format, values...)}
}

func (s *Subject) facts() *policy.Facts { return s.Explained.Facts }

// others are the deletions that neither a TTL nor a label decides.
func (s *Subject) others() []policy.Verdict {
	return slices.DeleteFunc(slices.Clone(s.Explained.Others), func(verdict policy.Verdict) bool {
		return !expires(verdict) || judging.Stops(verdict.Trigger)
	})
}

// DeletionOf is when the explained object is deleted.
func DeletionOf(e *judging.Explanation) Deletion {
	if verdict, ok := e.Goes(); ok {
		return Deletion{Expiry: verdict.Expiry}
	}
	if e.ByTTL.Err != nil || !e.Facts.Profile.Finishable() {
		return Deletion{}
	}
	if e.Facts.Finished && e.ByTTL.Action != policy.RecordFinish {
		return Deletion{}
	}
	if e.Facts.Protected() || e.Facts.CurfewsOwn() || e.Facts.IsPod() && e.Facts.AlwaysRestarts() {
		return Deletion{}
	}
	after := func(value resolution.Value) *lifetime.TTL {
		if !value.Set || value.Err != nil {
			return nil
		}
		return &value.TTL
	}
	if e.Facts.Finished {
		return Deletion{After: after(e.Effective.TTL(e.Facts.Outcome))}
	}
	out := Deletion{After: after(e.Effective.Succeeded)}
	failed := after(e.Effective.Failed)
	switch {
	case out.After == nil && failed == nil, out.After != nil && out.After.Never && failed != nil && failed.Never:
		return Deletion{}
	case out.After == nil:
		out.After = &lifetime.TTL{Never: true}
	}
	failed = cmp.Or(failed, &lifetime.TTL{Never: true})
	if *failed != *out.After {
		out.AfterFailure = failed
	}
	return out
}

// expires reports whether a verdict has an expiry.
func expires(verdict policy.Verdict) bool {
	return verdict.Action == policy.Wait || verdict.Action == policy.Delete
}

// patched is a patched copy of the object.
func (s *Subject) patched(patch map[string]any) (map[string]any, *policy.Facts) {
	changed, _ := merged(runtime.DeepCopyJSONValue(s.Object), patch).(map[string]any)
	facts := policy.FactsOfObject(s.facts().Profile, changed)
	facts.Namespace = s.facts().Namespace
	return changed, facts
}

// try applies a patch to a copy of the object, and explains and reviews that as the cluster would.
func (s *Subject) try(patch map[string]any, warnings ...string) (*Plan, error) {
	_, facts := s.patched(patch)
	for _, key := range resolution.Outdated(s.facts(), facts) { // The stamp names a default, which the value no longer is.
		set(patch, annotation(key), nil)
	}
	relabelled := facts.Labels[wellknown.LabelTTL] != s.facts().Labels[wellknown.LabelTTL]
	if relabelled && s.facts().Annotations[wellknown.AnnotationLabelSource] != "" {
		// The annotation is never removed: see [wellknown.AnnotationLabelSource].
		set(patch, annotation(wellknown.AnnotationLabelSource), string(lifetime.LevelObject))
	}
	changed, facts := s.patched(patch)
	after := judging.Explain(facts, s.Explained.Scope, judging.Question{Now: s.Now, Alias: s.Alias})
	plan := &Plan{Patch: patch, Before: DeletionOf(s.Explained), After: DeletionOf(after), Warnings: warnings}
	request := &rules.Request{
		Operation: rules.Update, Object: changed, Old: s.Object, Facts: facts, OldFacts: s.facts(),
		Scope: s.Explained.Scope, Effective: &after.Effective, Now: s.Now,
		Options: rules.Options{WarnExpiredLabels: true}, // Each command has its own words for that.
	}
	if s.MayUpdate != nil {
		request.Access.Policies = map[string]rules.Answer{}
		for _, name := range rules.ProtectionDeniedBy(request) {
			request.Access.Policies[name] = s.MayUpdate(name)
		}
	}
	decision := rules.Review(request)
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

// untouchable says why an object cannot be changed any more.
func (s *Subject) untouchable() error {
	if s.facts().Deleting {
		return errors.New("is being deleted, which cannot be undone")
	}
	return nil
}

// at formats a time for messages.
func (s *Subject) at(t time.Time) string {
	return t.In(s.Now.Location()).Format("2006-01-02 15:04:05 MST")
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
func set(patch map[string]any, path fieldpath.FieldPath, value any) {
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

func annotation(key string) fieldpath.FieldPath {
	return fieldpath.FieldPath{"metadata", "annotations", key}
}

func label(key string) fieldpath.FieldPath { return fieldpath.FieldPath{"metadata", "labels", key} }

// setLabel sets the expiry by label. A label that is a duration stays one, where whole minutes are
// exact and the bounds end no sooner. They deny a date that lies after them.
func (s *Subject) setLabel(patch map[string]any, until time.Time) {
	key := s.Explained.LabelKey
	old, err := lifetime.ParseLabel(key, s.facts().Labels[key])
	fresh := lifetime.TTLLabel{At: roundUp(until)}
	clock, _ := s.facts().LabelClock() // A label whose clock cannot be read does not expire.
	if life := until.Sub(clock); err == nil && old.At.IsZero() && life%time.Minute == 0 && life >= time.Minute {
		lasting := lifetime.TTLLabel{After: life}
		if s.Explained.Scope.LabelExpiry(lasting, s.facts().Created, clock).Equal(until) {
			fresh = lasting
		}
	}
	set(patch, label(key), fresh.String())
}

func roundUp(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		return whole.Add(time.Second)
	}
	return whole
}

// setTTL writes a TTL after finished for an outcome, in place of the value that decides. It also
// raises the native field beside that: the kind's own controller would act on it first.
func (s *Subject) setTTL(patch map[string]any, outcome lifetime.Outcome, after time.Duration) error {
	e := s.Explained
	if e.Scope.Runtime != nil && e.Facts.ForeignManager(e.Scope.NoMultiKueue) == "" && (e.Scope.Runtime.Missing || !e.Scope.Runtime.TTL.Empty()) {
		return fmt.Errorf("its runtime %q decides its TTL: change it there", e.Scope.Runtime.Name)
	}
	if after > lifetime.MaxDuration {
		return fmt.Errorf("%s is too long: at most %s", lifetime.FormatDuration(after), lifetime.FormatDuration(lifetime.MaxDuration))
	}
	own := e.Facts.TTLs()
	decides := own.For(outcome)
	native := own.NativeFor(outcome)
	if native != nil && (decides == native || native.Err != nil || native.TTL.After < after) {
		path, err := fieldpath.ParseFieldPath(native.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", native.Path, err)
		}
		set(patch, path, int64(after/time.Second))
	}
	if decides != nil && decides == native {
		return nil
	}
	byKey := map[lifetime.Outcome]string{lifetime.Succeeded: wellknown.AnnotationTTLSucceeded, lifetime.Failed: wellknown.AnnotationTTLFailed}
	key := wellknown.AnnotationTTL
	if decides != nil && (decides == own.Succeeded || decides == own.Failed) {
		key = byKey[outcome]
	}
	succeeded, failed := e.Effective.Succeeded, e.Effective.Failed
	byOutcome := !e.Facts.Finished && (succeeded.Set != failed.Set || succeeded.TTL != failed.TTL)
	if decides == nil && (!own.Empty() || byOutcome) {
		// The TTL for the other outcome must not change.
		key = byKey[outcome]
	}
	set(patch, annotation(key), lifetime.FormatDuration(after))
	return nil
}
