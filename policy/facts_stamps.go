package policy

import (
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// StaysByTTL reports whether the TTL after finished that the author set is never, or cannot be
// read, for some outcome. A default label would delete the object all the same.
func (f *Facts) StaysByTTL() bool {
	if level := lifetime.ParseSource(f.Annotations[wellknown.AnnotationTTLSource]).Level; level == lifetime.LevelNamespace || level == lifetime.LevelPolicy {
		return false // A default.
	}
	ttls := f.TTLs()
	return slices.ContainsFunc([]lifetime.Outcome{lifetime.Succeeded, lifetime.Failed}, func(outcome lifetime.Outcome) bool {
		said := ttls.For(outcome)
		return said != nil && (said.Err != nil || said.TTL.Never)
	})
}

func (f *Facts) WithoutLabel() *Facts {
	out := *f
	out.Labels = maps.Clone(f.Labels)
	delete(out.Labels, wellknown.LabelTTL)
	return &out
}

// Backfilled ends the stamp of a label that an existing object was given.
const Backfilled = "backfill"

// ClaimedLabel is the policy that the stamp of the TTL label names, and whether the object existed
// when it was given the label. A stamp counts only beside the label that it names: one that was
// changed since is its author's.
func (f *Facts) ClaimedLabel() (source lifetime.Source, backfill bool) {
	given, rest, _ := strings.Cut(f.Annotations[wellknown.AnnotationLabelSource], " ")
	label, mark, _ := strings.Cut(rest, " ")
	source = lifetime.ParseSource(given)
	if source.Level != lifetime.LevelPolicy || label != f.Labels[wellknown.LabelTTL] {
		return lifetime.Source{Level: lifetime.LevelObject}, false
	}
	return source, mark == Backfilled
}

// LabelPolicy is the name of the policy that gave the object its TTL label, according to its stamp;
// "" where there is none.
func (f *Facts) LabelPolicy() string {
	source, _ := f.ClaimedLabel()
	return source.Name
}

// FillsNativeDeadline reports whether admission writes a deadline into the native field: only where
// the kind's own controller is known to act on it. An API may reject a field whose feature gate is
// off, as JobSet does.
func (f *Facts) FillsNativeDeadline() bool { return f.Profile.Deadline != nil && !f.DeadlineByCurfew }

// A policy in dry-run deletes nothing on its account: what its defaults stamped before is held as
// well. A stamp counts only if that policy matches and would give the object the same value again,
// so that a forged one gains nothing. If the policy cannot be evaluated, it may give that value:
// the object is held (S6).

// StampedBy reports whether a stamp of the object names a policy that meets the condition.
func (f *Facts) StampedBy(condition func(name string) bool) bool {
	label, _ := f.ClaimedLabel()
	return slices.ContainsFunc([]lifetime.Source{
		lifetime.ParseSource(f.Annotations[wellknown.AnnotationTTLSource]), lifetime.ParseSource(f.Annotations[wellknown.AnnotationDeadlineSource]), label,
	}, func(source lifetime.Source) bool {
		return source.Level == lifetime.LevelPolicy && condition(source.Name)
	})
}

func (f *Facts) WithoutTTL() *Facts {
	without := f.Without(append([]string{wellknown.AnnotationTTLSource}, wellknown.TTLAnnotations...)...)
	without.NativeTTL = lifetime.NativeField{}
	return without
}

func (f *Facts) WithoutDeadline() *Facts {
	without := f.Without(wellknown.AnnotationDeadlineSource, wellknown.AnnotationActiveDeadline)
	without.NativeDeadline = lifetime.NativeField{}
	return without
}

func (f *Facts) Without(annotations ...string) *Facts {
	out := *f
	out.Annotations = maps.Clone(f.Annotations)
	for _, key := range annotations {
		delete(out.Annotations, key)
	}
	return &out
}

// Native is the native field at a path to which defaults are written, if there is one.
func (f *Facts) Native(path fieldpath.FieldPath) (lifetime.NativeField, bool) {
	switch path.String() {
	case f.Profile.TTL.String():
		return f.NativeTTL, true
	case f.Profile.Deadline.String():
		return f.NativeDeadline, true
	default:
		return lifetime.NativeField{}, false
	}
}
