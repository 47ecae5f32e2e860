package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// JudgeLabel decides by the TTL label under key what happens to an object at the instant now:
// [LabelTTL], or its alias [LabelKyvernoTTL], which applies only where the first is absent. Unlike
// a TTL after finished, a label applies to unfinished and owned objects too. The verdict is valid
// for exactly the resourceVersion in the facts (S1).
func JudgeLabel(facts *Facts, key string, scope *Scope, now time.Time) Verdict {
	text, ok := facts.Labels[key]
	_, outranked := facts.Labels[LabelTTL]
	if ok && facts.OwnKind() && !facts.Deleting {
		return Verdict{Action: Keep, Reason: "is part of Curfew", Source: Source{Level: LevelObject},
			Err: fmt.Errorf("%s: Curfew never deletes a %s: remove the label", LabelPath(key), facts.Profile.Kind.Kind)}
	}
	if verdict, ok := facts.untouchable(); ok {
		return verdict
	}
	switch {
	case !ok:
		return keep("has no TTL label")
	case key != LabelTTL && outranked:
		return keep(fmt.Sprintf("label %s decides", LabelTTL))
	}
	source, backfill := Source{Level: LevelObject}, false
	if key == LabelTTL {
		source, backfill = scope.labelSource(facts)
	}
	unusable := func(err error) Verdict {
		return Verdict{Action: Keep, Reason: "its TTL label cannot be used", Source: source,
			Err: fmt.Errorf("%s: %w", LabelPath(key), err)}
	}
	label, err := ParseLabel(key, text)
	switch {
	case facts.NeverDeleted():
		return keptImmortal(key, source)
	case err != nil:
		return unusable(err) // S6
	case label.At.IsZero() && facts.Created.IsZero():
		return unusable(fmt.Errorf("%s counts from the creation, which the object does not say: use a date", label))
	case facts.RerunBy() != "":
		return facts.keepFor(facts.RerunBy(), LabelPath(key), source)
	case facts.IsPod() && facts.Uncounted():
		return keep("its Job has not accounted for it yet") // S5
	}
	if err := scope.CheckLabel(label, facts.Created, EnforcedBounds); err != nil {
		return unusable(err)
	}
	if !label.Expiry(facts.Created).After(facts.Created) {
		// Admission denies it. A restored object, or one that bypassed admission, stays (S6).
		return unusable(fmt.Errorf("%s expired before the object was created: use a later one, or delete the object", label))
	}
	propagation, _, err := scope.Propagation()
	return Verdict{Trigger: TriggerLabel, Source: source, Backfill: backfill, DryRun: scope.Mode() == ModeDryRun || scope.holdsLabel(source)}.
		due(label.Expiry(facts.Created), now, Delete).propagated(propagation, err)
}

// OwnKind reports whether the object is of a kind of Curfew's, such as a LifecyclePolicy.
func (f *Facts) OwnKind() bool { return f.Profile.Kind.Group == Group }

// CurfewsOwn reports whether the object is a part of Curfew: of its kinds, one of their
// CustomResourceDefinitions, or installed under its name. Objects in Curfew's own namespace are
// protected with that. No label or owner reference counts, since any author
// writes these: a tenant's object would escape every TTL, bound and cleanup.
func (f *Facts) CurfewsOwn() bool {
	kind := f.Profile.Kind.GroupKind()
	return f.OwnKind() || slices.Contains(installed[kind], f.Name) ||
		kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition" && strings.HasSuffix(f.Name, "."+Group)
}
