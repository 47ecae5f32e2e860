package policy

import (
	"fmt"
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
	if verdict, ok := facts.untouchable(); ok {
		return verdict
	}
	switch {
	case !ok:
		return keep("has no TTL label")
	case key != LabelTTL && outranked:
		return keep(fmt.Sprintf("label %s decides", LabelTTL))
	}
	source := Source{Level: LevelObject}
	unusable := func(err error) Verdict {
		return Verdict{Action: Keep, Reason: "its TTL label cannot be used", Source: source,
			Err: fmt.Errorf("%s: %w", LabelPath(key), err)}
	}
	label, err := ParseLabel(key, text)
	switch {
	case facts.neverDeleted():
		return keptImmortal(key, source)
	case err != nil:
		return unusable(err) // S6
	case label.At.IsZero() && facts.Created.IsZero():
		return unusable(fmt.Errorf("%s counts from the creation, which the object does not say: use a date", label))
	case facts.rerunBy() != "":
		return facts.keepFor(facts.rerunBy(), LabelPath(key), source)
	case facts.IsPod() && facts.Uncounted():
		return keep("its Job has not accounted for it yet") // S5
	}
	if err := scope.CheckLabel(label, facts.Created, EnforcedBounds); err != nil {
		return unusable(err)
	}
	return Verdict{Trigger: TriggerLabel, Source: source, DryRun: scope.Mode() == ModeDryRun}.due(label.Expiry(facts.Created), now, Delete)
}

// CurfewsOwn reports whether the object is a part of Curfew: its CustomResourceDefinitions and, by
// their label, the other objects of its manifests. Objects of its kinds, such as a LifecyclePolicy,
// are not.
func (f *Facts) CurfewsOwn() bool {
	kind := f.Profile.Kind.GroupKind()
	return f.Labels[LabelPartOf] == PartOfCurfew ||
		kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition" && strings.HasSuffix(f.Name, "."+Group)
}
