package policy

import "fmt"

// LimitKeys are the annotations of a trigger that limit an object's lifetime. The label has a key
// of its own.
func LimitKeys(trigger Trigger) []string {
	switch trigger {
	case TriggerTTL:
		return TTLAnnotations
	case TriggerDeadline, TriggerDeadlineCheck:
		return []string{AnnotationActiveDeadline}
	default:
		return nil
	}
}

// MayInherit reports whether a value under one of the keys may come from the template of the
// object's controller owner. Only then must the owner be read. A CronJob's jobTemplate is not a pod
// template: what its metadata says about the Job is explicit.
func (f *Facts) MayInherit(keys ...string) bool {
	if f.Owner == nil || f.isCronJobsJob() {
		return false
	}
	for _, key := range keys {
		if _, _, ok := f.carried(key); ok {
			return true
		}
	}
	return false
}

// carried is the value of the object under a key, with its field path.
func (f *Facts) carried(key string) (value, path string, ok bool) {
	if value, ok = f.Labels[key]; ok && (key == LabelTTL || key == LabelKyvernoTTL) {
		return value, LabelPath(key), true
	}
	value, ok = f.Annotations[key]
	return value, AnnotationPath(key), ok
}

// Inherited is the verdict on an object whose value under one of the keys comes from its owner's
// template: keep, and report. The owner's controller would create each deleted child again. ok is
// false where the value is the child's own, which counts (KEP-592), and for an orphan, whose owner
// is nil.
func (f *Facts) Inherited(owner map[string]any, keys ...string) (verdict Verdict, ok bool) {
	if owner == nil {
		return Verdict{}, false
	}
	for _, key := range keys {
		if value, path, there := f.carried(key); there && templateHas(owner, key, value) {
			return f.keepInherited(fmt.Errorf("%s: %q comes from the template of %s %s, which creates another object instead: remove it there",
				path, value, f.Owner.Kind, f.Owner.Name)), true
		}
	}
	return Verdict{}, false
}

// OwnerUnreadable is the verdict on an object that may inherit from an owner that Curfew cannot
// read.
func (f *Facts) OwnerUnreadable(err error) Verdict {
	return f.keepInherited(fmt.Errorf("%s %s cannot be read, and its template may contain the value: %w", f.Owner.Kind, f.Owner.Name, err))
}

func (f *Facts) keepInherited(err error) Verdict {
	return Verdict{Action: Keep, Reason: "it may belong to a template", Source: Source{Level: LevelObject}, Err: err}
}

// templateHas reports whether an owner has a key with a value anywhere but in its own metadata.
// Templates are in different places by kind (spec.template.metadata, spec.driver.labels,
// status.storedTemplates, …).
func templateHas(owner map[string]any, key, value string) bool {
	for name, field := range owner {
		if name != "metadata" && contains(field, key, value) {
			return true
		}
	}
	return false
}

func contains(field any, key, value string) bool {
	switch field := field.(type) {
	case map[string]any:
		if field[key] == value {
			return true
		}
		for _, inner := range field {
			if contains(inner, key, value) {
				return true
			}
		}
	case []any:
		for _, inner := range field {
			if contains(inner, key, value) {
				return true
			}
		}
	}
	return false
}
