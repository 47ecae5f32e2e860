package change

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

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
// exact.
func (s *Subject) setLabel(patch map[string]any, until time.Time) {
	key := s.Explained.LabelKey
	old, err := lifetime.ParseLabel(key, s.facts().Labels[key])
	fresh := lifetime.TTLLabel{At: roundUp(until)}
	if life := until.Sub(s.facts().Created); err == nil && old.At.IsZero() && life%time.Minute == 0 && life >= time.Minute {
		fresh = lifetime.TTLLabel{After: life}
	}
	set(patch, label(key), fresh.String())
}

func roundUp(at time.Time) time.Time {
	whole := at.UTC().Truncate(time.Second)
	if whole.Before(at) {
		return whole.Add(time.Second)
	}
	return whole
}

// setTTL writes a TTL after finished for an outcome, in place of the value that decides. It also
// raises the native field beside that: the kind's own controller would act on it first.
func (s *Subject) setTTL(patch map[string]any, outcome lifetime.Outcome, after time.Duration) error {
	e := s.Explained
	if e.Scope.Runtime != nil && e.Facts.ForeignManager() == "" && (e.Scope.Runtime.Missing || !e.Scope.Runtime.TTL.Empty()) {
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
