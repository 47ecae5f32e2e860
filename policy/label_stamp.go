package policy

import (
	"slices"
	"strings"
	"time"
)

// backfilled ends the stamp of a label that an existing object was given.
const backfilled = "backfill"

// labelStamp is the text of [AnnotationLabelSource] for a label that a policy gave, for example
// "policy/scratch 30d".
func labelStamp(label string, said *Setting, backfill bool) string {
	text := said.Source.String() + " " + label
	if backfill {
		text += " " + backfilled
	}
	return text
}

// claimedLabel is the policy that the stamp of the TTL label names, and whether the object existed
// when it was given the label. A stamp counts only beside the label that it names: one that was
// changed since is its author's.
func (f *Facts) claimedLabel() (source Source, backfill bool) {
	given, rest, _ := strings.Cut(f.Annotations[AnnotationLabelSource], " ")
	label, mark, _ := strings.Cut(rest, " ")
	source = ParseSource(given)
	if source.Level != LevelPolicy || label != f.Labels[LabelTTL] {
		return Source{Level: LevelObject}, false
	}
	return source, mark == backfilled
}

// LabelPolicy is the name of the policy that gave the object its TTL label, according to its stamp;
// "" where there is none.
func (f *Facts) LabelPolicy() string {
	source, _ := f.claimedLabel()
	return source.Name
}

// labelSource returns the source of the TTL label, and whether the backfill rate limits the
// deletion. Anyone who may write the object can write a stamp, so a policy is the source only if it
// would give the label again. Otherwise the label is its author's, as after an edit of the policy.
// The rate applies even then: an edit of the policy must not delete at once the objects that were
// to be deleted slowly. These objects yield to objects with a proven stamp.
func (s *Scope) labelSource(facts *Facts) (source Source, backfill bool) {
	source, backfill = facts.claimedLabel()
	if source.Level == LevelPolicy && !s.gaveLabel(facts, source) {
		source = Source{Level: LevelObject}
	}
	return source, backfill
}

// gaveLabel reports whether a policy would give the object, if it were new, the TTL label that it
// has. A policy that cannot be evaluated may give it (S6).
func (s *Scope) gaveLabel(facts *Facts, source Source) bool {
	return slices.ContainsFunc([]*Scope{s, s.Filled}, func(scope *Scope) bool {
		if scope == nil {
			return false
		}
		// As in [Scope.holds]: others in dry-run may have decided when the label was stamped.
		return slices.ContainsFunc([]*Scope{scope.enforcing(source.Name), scope.asEnforced()}, func(then *Scope) bool {
			text, said := DefaultLabel(facts.withoutLabel(), then, facts.Created)
			return said != nil && said.Source == source && (said.Err != nil || text == facts.Labels[LabelTTL])
		})
	})
}

// forgedLabelSource removes the stamp from a new object whose label no policy gives.
func forgedLabelSource(facts *Facts, scope *Scope, now time.Time) []Assignment {
	if facts.LabelPolicy() == "" || scope.Mode() == ModeDryRun || DefaultedLabel(facts, scope, now) != nil {
		return nil
	}
	return stamp(facts, AnnotationLabelSource, "")
}

// StampRemovedLabel records that an update removes the TTL label, under a key that counts, so that
// the object is given no other. A stamp that is there says so already.
func StampRemovedLabel(old, updated *Facts, keys ...string) []Assignment {
	if _, stamped := updated.Annotations[AnnotationLabelSource]; stamped {
		return nil
	}
	for _, key := range keys {
		_, had := old.Labels[key]
		if _, has := updated.Labels[key]; had && !has {
			return stamp(updated, AnnotationLabelSource, string(LevelObject))
		}
	}
	return nil
}
