package policy

import (
	"strings"
	"time"
)

// backfilled ends the stamp of a label that an existing object was given.
const backfilled = "backfill"

// labelStamp is what [AnnotationLabelSource] says of a label that a policy gave, for example
// "policy/scratch 30d".
func labelStamp(label string, said *Setting, backfill bool) string {
	text := said.Source.String() + " " + label
	if backfill {
		text += " " + backfilled
	}
	return text
}

// labelSource is where the TTL label came from, and whether the object existed when it was given.
// A stamp counts only beside the label that it names: one that was changed since is its author's.
func (f *Facts) labelSource() (source Source, backfill bool) {
	given, rest, _ := strings.Cut(f.Annotations[AnnotationLabelSource], " ")
	label, mark, _ := strings.Cut(rest, " ")
	source = ParseSource(given)
	if source.Level != LevelPolicy || label != f.Labels[LabelTTL] {
		return Source{Level: LevelObject}, false
	}
	return source, mark == backfilled
}

// forgedLabelSource removes the stamp from a new object whose label no policy gives.
func forgedLabelSource(facts *Facts, scope *Scope, now time.Time) []Assignment {
	source, _ := facts.labelSource()
	if source.Level != LevelPolicy || scope.Mode() == ModeDryRun || DefaultedLabel(facts, scope, now) != nil {
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
