package resolution

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
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
func DefaultLabel(facts *policy.Facts, scope *Scope, now time.Time) (string, *lifetime.Setting) {
	if !mayGetLabel(facts, scope) {
		return "", nil
	}
	for _, platformPolicy := range scope.Policies {
		if platformPolicy.givesLabel() {
			return scope.label(facts, platformPolicy, time.Time{}, now)
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
func MissingLabel(facts *policy.Facts, scope *Scope, now time.Time) (string, *lifetime.Setting) {
	_, given := facts.Annotations[wellknown.AnnotationLabelSource]
	if given || facts.Deleting || facts.Created.IsZero() || !mayGetLabel(facts, scope) {
		return "", nil
	}
	for _, platformPolicy := range scope.Policies {
		if !platformPolicy.givesLabel() {
			continue
		}
		if !platformPolicy.Backfill && (platformPolicy.Since.IsZero() || !facts.Created.After(platformPolicy.Since)) {
			return "", nil
		}
		text, setting := scope.label(facts, platformPolicy, facts.Created, now)
		label, err := lifetime.ParseTTLLabel(text)
		if err == nil && !platformPolicy.Backfill && label.Expiry(facts.Created).Before(now.Add(withoutBackfill)) {
			setting.Err = ErrNeedsBackfill
			return "", setting
		}
		return text, setting
	}
	return "", nil
}

// WithheldLabel is the label that only a dry-run, of the namespace or of a policy, keeps
// [MissingLabel] from giving; "" where there is none.
func WithheldLabel(facts *policy.Facts, scope *Scope, now time.Time) string {
	if label, _ := MissingLabel(facts, scope, now); label != "" || !scope.inDryRun() {
		return ""
	}
	label, _ := MissingLabel(facts, scope.asEnforced(), now)
	return label
}

// mayGetLabel reports whether an object may be given a TTL label, if a policy has one for it.
func mayGetLabel(facts *policy.Facts, scope *Scope) bool {
	_, labelled := facts.Labels[wellknown.LabelTTL]
	// A default would outrank the value that the author set in the alias.
	_, aliased := facts.Labels[wellknown.LabelKyvernoTTL]
	// NoDefault lets the Pods of a Job through for default-pod-ttl, which is resolved live. A label
	// is written, so not there (S5).
	child := facts.IsPod() && facts.Owner != nil
	return scope.gives(policy.TriggerLabel) && !labelled && !aliased && !child && !facts.Essential() &&
		!scope.Protected && scope.Mode() != ModeDryRun && !facts.StaysByTTL() && NoDefault(facts, scope) == ""
}

// givesLabel reports whether the policy has a label to give. One in dry-run gives none.
func (p *PlatformPolicy) givesLabel() bool { return p.Label != nil && p.Mode != ModeDryRun }

// label is the label of one policy for an object, created then; zero for one that is new.
func (s *Scope) label(facts *policy.Facts, platformPolicy *PlatformPolicy, created, now time.Time) (string, *lifetime.Setting) {
	setting := *platformPolicy.Label
	label, err := lifetime.ParseTTLLabel(setting.Text)
	if setting.Err == nil {
		setting.Err = err
	}
	if label.At.IsZero() && facts.IsCronJobsJob() {
		label.After = max(label.After, minCronJobTTL)
	}
	if setting.Err == nil {
		label, setting.Err = s.fitLabel(label, created, now)
	}
	if setting.Err != nil {
		return "", &setting
	}
	return label.String(), &setting
}

// LabelAssignments give an object a TTL label, and name the policy that it came from. backfill
// means that the object exists.
func LabelAssignments(facts *policy.Facts, label string, setting *lifetime.Setting, backfill bool) []Assignment {
	if label == "" {
		return nil
	}
	return append([]Assignment{{Path: fieldpath.FieldPath{"metadata", "labels", wellknown.LabelTTL}, Value: label}},
		stamp(facts, wellknown.AnnotationLabelSource, labelStamp(label, setting, backfill))...)
}

// DefaultedLabel is the TTL label that admission gave an object, or would have given it if nothing
// were in dry-run; nil where none.
func DefaultedLabel(facts *policy.Facts, scope *Scope, now time.Time) *Default {
	have, labelled := facts.Labels[wellknown.LabelTTL]
	without := facts.WithoutLabel()
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
	text, setting := DefaultLabel(without, scope, now)
	if text == "" || labelled && (text != have || facts.Annotations[wellknown.AnnotationLabelSource] != labelStamp(text, setting, false)) {
		return nil
	}
	return &Default{Field: wellknown.LabelTTL, Value: text, Source: setting.Source, DryRun: !labelled}
}

// fitLabel clamps a default for an object, created then; zero for one that is new. One that still
// lies outside the bounds, or a date within a minute, cannot be given: a date in a policy becomes
// stale by itself, and admission must not reject a default that it gave a moment ago.
func (s *Scope) fitLabel(label lifetime.TTLLabel, created, now time.Time) (lifetime.TTLLabel, error) {
	given, soon := label, now.Add(labelMargin)
	first, last := now, soon // when it was created, at the earliest and at the latest
	if !created.IsZero() {
		first, last = created, created
	}
	for _, policy := range s.Policies {
		if latest := policy.LatestDate; AllBounds.includes(policy) && !latest.IsZero() && label.Expiry(last).After(latest) {
			if latest.Before(soon) {
				return label, fmt.Errorf("latestDate %s of %s is over: raise it",
					latest.UTC().Format(lifetime.LabelDate), policy.Source().Phrase())
			}
			label = lifetime.TTLLabel{At: latest}
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

func (s *Scope) clampLabel(label lifetime.TTLLabel, created time.Time) lifetime.TTLLabel {
	life := label.Expiry(created).Sub(created)
	clamped := s.Bounds(AllBounds).Label.Clamp(lifetime.TTL{After: life}).After
	if clamped == life {
		return label
	}
	return lifetime.TTLLabel{After: clamped}
}

// labelStamp is the text of [wellknown.AnnotationLabelSource] for a label that a policy gave, for
// example "policy/scratch 30d".
func labelStamp(label string, setting *lifetime.Setting, backfill bool) string {
	text := setting.Source.String() + " " + label
	if backfill {
		text += " " + policy.Backfilled
	}
	return text
}

// LabelSource returns the source of the TTL label, and whether the backfill rate limits the
// deletion. Anyone who may write the object can write a stamp, so a policy is the source only if it
// would give the label again. Otherwise the label is its author's, as after an edit of the policy.
// The rate applies even then: an edit of the policy must not delete at once the objects that were
// to be deleted slowly. These objects yield to objects with a proven stamp.
func (s *Scope) LabelSource(facts *policy.Facts) (source lifetime.Source, backfill bool) {
	source, backfill = facts.ClaimedLabel()
	if source.Level == lifetime.LevelPolicy && !s.gaveLabel(facts, source) {
		source = lifetime.Source{Level: lifetime.LevelObject}
	}
	return source, backfill
}

// gaveLabel reports whether a policy would give the object, if it were new, the TTL label that it
// has. A policy that cannot be evaluated may give it (S6).
func (s *Scope) gaveLabel(facts *policy.Facts, source lifetime.Source) bool {
	return slices.ContainsFunc([]*Scope{s, s.Filled}, func(scope *Scope) bool {
		if scope == nil {
			return false
		}
		// As in [Scope.holds]: others in dry-run may have decided when the label was stamped.
		return slices.ContainsFunc([]*Scope{scope.enforcing(source.Name), scope.asEnforced()}, func(then *Scope) bool {
			text, setting := DefaultLabel(facts.WithoutLabel(), then, facts.Created)
			return setting != nil && setting.Source == source && (setting.Err != nil || text == facts.Labels[wellknown.LabelTTL])
		})
	})
}

// StampRemovedLabel records that an update removes the TTL label, under a key that counts, so that
// the object is given no other. A stamp that is there says so already.
func StampRemovedLabel(old, updated *policy.Facts, keys ...string) []Assignment {
	if _, stamped := updated.Annotations[wellknown.AnnotationLabelSource]; stamped {
		return nil
	}
	for _, key := range keys {
		_, had := old.Labels[key]
		if _, has := updated.Labels[key]; had && !has {
			return stamp(updated, wellknown.AnnotationLabelSource, string(lifetime.LevelObject))
		}
	}
	return nil
}
