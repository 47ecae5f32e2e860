package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// labelMargin is how far ahead a default date must lie: admission must not reject a default that it
// gave a moment ago.
const labelMargin = time.Minute

// withoutBackfill is the time that a label must leave an existing object if its policy does not set
// backfill, so that people can notice.
const withoutBackfill = time.Hour

// ErrNeedsBackfill is why [MissingLabel] does not give a label that expires too soon.
var ErrNeedsBackfill = errors.New("its default would expire within an hour: set backfill: true in the policy to give it nevertheless")

// DefaultLabel is the TTL label that admission gives to a new object without one, and the setting
// of the policy that decided: the first that has one. The label is "" where none is given; the
// setting then has an error if one was intended. A default is clamped. One that would be expired at
// once is stale and not given (S6).
func DefaultLabel(facts *Facts, scope *Scope, now time.Time) (string, *Setting) {
	if !mayGetLabel(facts, scope) {
		return "", nil
	}
	for _, of := range scope.Policies {
		if of.givesLabel() {
			return scope.label(facts, of, time.Time{}, now)
		}
	}
	return "", nil
}

// MissingLabel is the TTL label that an existing object should have and does not, and the setting
// of the policy that decided, as [DefaultLabel] returns them. Either admission was down when the
// object was created, or it is older than the default and the policy says backfill. A duration
// counts from the creation, so that the label may be expired when it is given. Without backfill
// such a label is not given, with [ErrNeedsBackfill]: an object may come to match long after its
// creation. An object whose label was removed is given no other.
func MissingLabel(facts *Facts, scope *Scope, now time.Time) (string, *Setting) {
	if _, given := facts.Annotations[AnnotationLabelSource]; given || facts.Deleting || facts.Created.IsZero() || !mayGetLabel(facts, scope) {
		return "", nil
	}
	for _, of := range scope.Policies {
		if !of.givesLabel() {
			continue
		}
		if !of.Backfill && (of.Since.IsZero() || !facts.Created.After(of.Since)) {
			return "", nil
		}
		text, said := scope.label(facts, of, facts.Created, now)
		if label, err := ParseTTLLabel(text); err == nil && !of.Backfill && label.Expiry(facts.Created).Before(now.Add(withoutBackfill)) {
			said.Err = ErrNeedsBackfill
			return "", said
		}
		return text, said
	}
	return "", nil
}

// WithheldLabel is the label that only a dry-run, of the namespace or of a policy, keeps
// [MissingLabel] from giving; "" where there is none.
func WithheldLabel(facts *Facts, scope *Scope, now time.Time) string {
	if label, _ := MissingLabel(facts, scope, now); label != "" || !scope.inDryRun() {
		return ""
	}
	label, _ := MissingLabel(facts, scope.asEnforced(), now)
	return label
}

// mayGetLabel reports whether an object may be given a TTL label, if a policy has one for it.
func mayGetLabel(facts *Facts, scope *Scope) bool {
	_, labelled := facts.Labels[LabelTTL]
	// A default would outrank the value that the author set in the alias.
	_, aliased := facts.Labels[LabelKyvernoTTL]
	// NoDefault lets the Pods of a Job through for default-pod-ttl, which is resolved live. A label
	// is written, so not there (S5).
	child := facts.IsPod() && facts.Owner != nil
	return scope.gives(TriggerLabel) && !labelled && !aliased && !child && !facts.Essential() && !scope.Protected && scope.Mode() != ModeDryRun &&
		!facts.staysByTTL() && NoDefault(facts) == ""
}

// staysByTTL reports whether the TTL after finished that the author set is never, or cannot be
// read, for some outcome. A default label would delete the object all the same.
func (f *Facts) staysByTTL() bool {
	if level := ParseSource(f.Annotations[AnnotationTTLSource]).Level; level == LevelNamespace || level == LevelPolicy {
		return false // A default.
	}
	ttls := f.TTLs()
	return slices.ContainsFunc([]Outcome{Succeeded, Failed}, func(outcome Outcome) bool {
		said := ttls.For(outcome)
		return said != nil && (said.Err != nil || said.TTL.Never)
	})
}

// givesLabel reports whether the policy has a label to give. One in dry-run gives none.
func (p *PlatformPolicy) givesLabel() bool { return p.Label != nil && p.Mode != ModeDryRun }

// label is the label of one policy for an object, created then; zero for one that is new.
func (s *Scope) label(facts *Facts, of *PlatformPolicy, created, now time.Time) (string, *Setting) {
	said := *of.Label
	label, err := ParseTTLLabel(said.Text)
	if said.Err == nil {
		said.Err = err
	}
	if label.At.IsZero() && facts.isCronJobsJob() {
		label.After = max(label.After, minCronJobTTL)
	}
	if said.Err == nil {
		label, said.Err = s.fitLabel(label, created, now)
	}
	if said.Err != nil {
		return "", &said
	}
	return label.String(), &said
}

// LabelAssignments give an object a TTL label, and name the policy that it came from. backfill
// means that the object exists.
func LabelAssignments(facts *Facts, label string, said *Setting, backfill bool) []Assignment {
	if label == "" {
		return nil
	}
	return append([]Assignment{{Path: FieldPath{"metadata", "labels", LabelTTL}, Value: label}}, stamp(facts, AnnotationLabelSource, labelStamp(label, said, backfill))...)
}

// DefaultedLabel is the TTL label that admission gave an object, or would have given it if nothing
// were in dry-run; nil where none.
func DefaultedLabel(facts *Facts, scope *Scope, now time.Time) *Default {
	have, labelled := facts.Labels[LabelTTL]
	without := facts.withoutLabel()
	switch {
	case labelled:
	case scope.inDryRun():
		if given, _ := DefaultLabel(facts, scope, now); given != "" {
			return nil
		}
		scope = scope.asEnforced()
	default:
		return nil
	}
	text, said := DefaultLabel(without, scope, now)
	if text == "" || labelled && (text != have || facts.Annotations[AnnotationLabelSource] != labelStamp(text, said, false)) {
		return nil
	}
	return &Default{Field: LabelTTL, Value: text, Source: said.Source, DryRun: !labelled}
}

func (f *Facts) withoutLabel() *Facts {
	out := *f
	out.Labels = maps.Clone(f.Labels)
	delete(out.Labels, LabelTTL)
	return &out
}

// fitLabel clamps a default for an object, created then; zero for one that is new. One that still
// lies outside the bounds, or a date within a minute, cannot be given: a date in a policy becomes
// stale by itself, and admission must not reject a default that it gave a moment ago.
func (s *Scope) fitLabel(label TTLLabel, created, now time.Time) (TTLLabel, error) {
	given, soon := label, now.Add(labelMargin)
	first, last := now, soon // when it was created, at the earliest and at the latest
	if !created.IsZero() {
		first, last = created, created
	}
	for _, policy := range s.Policies {
		if latest := policy.LatestDate; AllBounds.includes(policy) && !latest.IsZero() && label.Expiry(last).After(latest) {
			if latest.Before(soon) {
				return label, fmt.Errorf("latestDate %s of %s is over: raise it", latest.UTC().Format(labelDate), Source{Level: LevelPolicy, Name: policy.Name}.Phrase())
			}
			label = TTLLabel{At: latest}
		}
	}
	label = s.clampLabel(label, first)
	switch {
	case label.At.IsZero() && label.After == 0:
		return label, fmt.Errorf("%s is over at once: use a longer duration", label)
	case !label.At.IsZero() && label.At.Before(soon):
		return label, fmt.Errorf("%s is over: use a later date", given)
	case given.Expiry(last).After(now) && !label.Expiry(last).After(now):
		return label, fmt.Errorf("%s is longer than the bounds allow an object of this age: raise them, or use a duration", given)
	}
	if err := s.CheckLabel(label, first, EnforcedBounds); err != nil {
		return label, err
	}
	return label, s.CheckLabel(label, last, EnforcedBounds)
}

func (s *Scope) clampLabel(label TTLLabel, created time.Time) TTLLabel {
	life := label.Expiry(created).Sub(created)
	clamped := s.Bounds(AllBounds).Label.Clamp(TTL{After: life}).After
	if clamped == life {
		return label
	}
	return TTLLabel{After: clamped}
}

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
