package policy

import (
	"fmt"
	"strings"
	"time"
)

// JudgeLabel says what is to become of an object at the instant now, for the TTL label under key: [LabelTTL], or its alias
// [LabelKyvernoTTL], which speaks only where the first is absent. Other than a TTL after finished a label does not ask whether
// the object has finished, or who owns it: whoever puts it there means this very object. It holds for exactly the
// resourceVersion in the facts (S1).
func JudgeLabel(facts *Facts, key string, scope *Scope, now time.Time) Verdict {
	text, ok := facts.Labels[key]
	_, outranked := facts.Labels[LabelTTL]
	switch {
	case facts.Deleting:
		return keep("is being deleted already")
	case facts.Protected():
		return keep(fmt.Sprintf("is protected by annotation %s", AnnotationProtect))
	case facts.CurfewsOwn():
		return keep("is part of Curfew")
	case facts.MultiKueueCopy():
		return keptCopy()
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
	if err := scope.CheckLabel(label, facts.Created); err != nil {
		return unusable(err)
	}
	verdict := Verdict{
		Action: Wait, Expiry: label.Expiry(facts.Created), Trigger: TriggerLabel, Source: source, DryRun: scope.Mode() == ModeDryRun,
	}
	if !verdict.Expiry.After(now) {
		verdict.Action = Delete
	}
	return verdict
}

// CurfewsOwn reports whether the object is a part of Curfew: its Deployments, webhook configurations, roles and whatever else
// its manifests bring, by the label that all of them carry, and its CustomResourceDefinitions. Objects of its kinds, such as a
// LifecyclePolicy, are their author's.
func (f *Facts) CurfewsOwn() bool {
	kind := f.Profile.Kind.GroupKind()
	return f.Labels[LabelPartOf] == PartOfCurfew ||
		kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition" && strings.HasSuffix(f.Name, "."+Group)
}
