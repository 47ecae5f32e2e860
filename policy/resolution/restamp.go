package resolution

import (
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// Outdated are the stamps whose value an update changes: it is no longer the default that the stamp
// names. A value that is removed keeps its stamp, which then means that the object has none.
func Outdated(old, updated *policy.Facts) []string {
	var out []string
	before, after := old.TTLs(), updated.TTLs()
	if _, ok := defaultSource(old.Annotations, wellknown.AnnotationTTLSource); ok && !after.Empty() {
		for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
			if !sameTTL(before.For(outcome), after.For(outcome)) {
				out = append(out, wellknown.AnnotationTTLSource)
				break
			}
		}
	}
	_, ok := defaultSource(old.Annotations, wellknown.AnnotationDeadlineSource)
	if deadline := updated.Deadline(); ok && deadline != nil && !sameTTL(old.Deadline(), deadline) {
		out = append(out, wellknown.AnnotationDeadlineSource)
	}
	return out
}

func sameTTL(a, b *lifetime.Setting) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Err == nil && b.Err == nil && a.TTL == b.TTL || a.Path == b.Path && a.Text == b.Text
}

// Marked reports whether an update changes a stamp to another one than the object's.
func Marked(old, updated *policy.Facts) bool {
	return slices.ContainsFunc(fillings, func(each filling) bool {
		text := updated.Annotations[each.stamp]
		return text != old.Annotations[each.stamp] && text != "" && text != string(lifetime.LevelObject)
	})
}

// Restamp returns what an update needs besides, and its facts with that. A stamp of a default whose
// value it changes names the object. An author's value takes the place of a default in another field,
// which would overrule it or act first: the author's manifest does not have that, and cannot remove it.
func Restamp(old, updated *policy.Facts) ([]Assignment, *policy.Facts) {
	taken := append(replacedTTL(old, updated), replacedDeadline(old, updated)...)
	facts := lacking(updated, taken)
	var out []Assignment
	for _, key := range Outdated(old, facts) {
		out = append(out, stamp(updated, key, string(lifetime.LevelObject))...)
	}
	if own := facts.Deadline(); own != nil && own.Err == nil && includes(taken, facts.Profile.Deadline) {
		out = append(out, deadlineAssignment(facts, Value{TTL: own.TTL}))
	}
	return Replace(taken, out), facts
}

// replacedTTL are the unchanged fields of a default TTL that a changed field replaces: annotations
// replace the native field, that replaces them, and the plain annotation replaces those by outcome.
func replacedTTL(old, updated *policy.Facts) []fieldpath.FieldPath {
	if _, ok := defaultSource(old.Annotations, wellknown.AnnotationTTLSource); !ok {
		return nil
	}
	before, after := old.TTLs(), updated.TTLs()
	changed := func(a, b *lifetime.Setting) bool { return b != nil && (a == nil || a.Text != b.Text) }
	native := changed(before.Native, after.Native) || changed(before.NativeSucceeded, after.NativeSucceeded) || changed(before.NativeFailed, after.NativeFailed)
	all := changed(before.All, after.All)
	outcome := changed(before.Succeeded, after.Succeeded) || changed(before.Failed, after.Failed)
	var out []fieldpath.FieldPath
	replaced := func(by bool, a, b *lifetime.Setting, path fieldpath.FieldPath) {
		if by && b != nil && !changed(a, b) {
			out = append(out, path)
		}
	}
	replaced(all || outcome, before.Native, after.Native, updated.Profile.TTL)
	replaced(native, before.All, after.All, annotate(wellknown.AnnotationTTL, "").Path)
	replaced(native || all, before.Succeeded, after.Succeeded, annotate(wellknown.AnnotationTTLSucceeded, "").Path)
	replaced(native || all, before.Failed, after.Failed, annotate(wellknown.AnnotationTTLFailed, "").Path)
	return out
}

// replacedDeadline is the native deadline where it is a default, or a copy of the annotation, and the
// annotation changes; or the annotation where that is a default, and the native deadline changes.
func replacedDeadline(old, updated *policy.Facts) []fieldpath.FieldPath {
	before, had := old.Annotations[wellknown.AnnotationActiveDeadline]
	after, has := updated.Annotations[wellknown.AnnotationActiveDeadline]
	_, stamped := old.Annotations[wellknown.AnnotationDeadlineSource]
	_, isDefault := defaultSource(old.Annotations, wellknown.AnnotationDeadlineSource)
	annotated, native := had != has || before != after, !old.NativeDeadline.Same(updated.NativeDeadline)
	switch {
	case !updated.Profile.AnnotatedDeadline || updated.Profile.ImmutableDeadline || annotated == native || !updated.NativeDeadline.Set:
		return nil
	case annotated && (isDefault || stamped && had):
		return []fieldpath.FieldPath{updated.Profile.Deadline}
	case native && has && isDefault:
		return []fieldpath.FieldPath{annotate(wellknown.AnnotationActiveDeadline, "").Path}
	default:
		return nil
	}
}

// dropped reports whether an update removes a field of the value, or the value for an outcome. The
// deadline of an object that runs is only Curfew's to fill in where it was before.
func (f filling) dropped(old, updated *policy.Facts) bool {
	if _, stamped := old.Annotations[f.stamp]; !stamped && f.stamp == wellknown.AnnotationDeadlineSource {
		return false
	}
	before, after := f.settings(old), f.settings(updated)
	for i := range before {
		if before[i] != nil && after[i] == nil {
			return true
		}
	}
	return slices.ContainsFunc(f.fields(old.Profile), func(path fieldpath.FieldPath) bool {
		absent := Assignment{Path: path}
		return !carries(old, absent) && carries(updated, absent)
	})
}

// Drops reports whether an update removes a value, see [Refill].
func Drops(old, updated *policy.Facts) bool {
	return slices.ContainsFunc(fillings, func(each filling) bool { return each.dropped(old, updated) })
}

// Refill adds to what an update needs besides the values that it removes, filled in like at creation,
// or returns nothing. What the update leaves of a value has to
// be what would be filled in. A default that was removed comes back as it was if another one is shorter
// now, or if the kind allows no other: it is not the author who removes what a tool replaces. So does
// any TTL of a finished object, which a shorter default may delete at once.
func Refill(restamped []Assignment, old, updated *policy.Facts, scope *Scope) []Assignment {
	var out []Assignment
	for _, each := range fillings {
		if !each.dropped(old, updated) {
			continue
		}
		fields := each.fields(updated.Profile)
		bare := lacking(updated, append(fields, annotate(each.stamp, "").Path))
		effective := Resolve(bare, scope)
		filled := each.assignments(bare, &effective, scope)
		same := carried(updated, filled)
		if slices.ContainsFunc(fields, func(path fieldpath.FieldPath) bool {
			return !carries(updated, Assignment{Path: path}) && !includes(same, path)
		}) {
			continue
		}
		if each.shortens(old, &effective) {
			filled = each.asBefore(old)
		}
		out = append(out, override(stamp(updated, each.stamp, ""), filled)...)
	}
	if len(out) == 0 {
		return nil
	}
	return override(restamped, out)
}

// shortens reports whether the effective values are shorter than a default that the object had, or
// than any TTL of one that has finished. One that cannot be read keeps.
func (f filling) shortens(old *policy.Facts, effective *Effective) bool {
	if _, ok := defaultSource(old.Annotations, f.stamp); !ok && (f.stamp != wellknown.AnnotationTTLSource || !old.Finished) {
		return false
	}
	before := f.settings(old)
	for i, value := range f.values(effective) {
		had, fills := before[i], value.fillIn() && !value.TTL.Never
		if had != nil && fills && (had.Err != nil && old.Finished || had.Err == nil && (had.TTL.Never || value.TTL.After < had.TTL.After)) {
			return true
		}
	}
	return f.stamp == wellknown.AnnotationDeadlineSource && old.Profile.ImmutableDeadline
}

// asBefore are the value and the stamp that the object had.
func (f filling) asBefore(old *policy.Facts) []Assignment {
	var out []Assignment
	if field, ok := old.Native(f.native(old.Profile)); ok && field.Set {
		value := any(field.Seconds)
		if field.Text != "" {
			value = field.Text
		}
		out = append(out, Assignment{Path: f.native(old.Profile), Value: value})
	}
	for _, key := range slices.Concat(f.keys, []string{f.stamp}) {
		if text, ok := old.Annotations[key]; ok {
			out = append(out, annotate(key, text))
		}
	}
	return out
}
