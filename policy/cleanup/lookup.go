package cleanup

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/quote"
)

// volumeKinds are the kinds of the core group that lookups about volumes apply to.
const (
	claimKind  = "PersistentVolumeClaim"
	volumeKind = "PersistentVolume"
)

// fieldOf is the field of an object of a kind that a lookup reads; "" for none. Without it the
// answer is unknown: a list of metadata has no claimRef, and the volume may have one.
func fieldOf(lookup, kind string) string {
	switch {
	case lookup == expression.LookupBound:
		return "status"
	case lookup == expression.LookupMounted && kind == volumeKind:
		return "spec"
	default:
		return ""
	}
}

// NeedsObject reports whether the policy has to see more of an object than its metadata.
func (p *Policy) NeedsObject() bool {
	return p.Expressions.NeedsObject || slices.ContainsFunc(p.Expressions.Lookups, func(lookup string) bool {
		return fieldOf(lookup, volumeKind) != ""
	})
}

func (o *Object) variables() *expression.Variables {
	return &expression.Variables{Object: o.JSON, NamespacePolicy: o.Namespace, Now: o.Now, Lookup: o.lookup}
}

// lookup answers a lookup, and notes if there is no answer. Lookups have three values: where one of
// them is unknown, the object is kept, whatever an expression makes of it (S6).
func (o *Object) lookup(name string) (bool, error) {
	answer, err := o.answer(name)
	if err != nil && o.unknown == nil {
		o.unknown = err
	}
	return answer, err
}

// undecided keeps an object because a lookup has no answer.
func (o *Object) undecided() Decision {
	return Decision{Verdict: Skip, Reason: SkipLookup, Message: o.unknown.Error()}
}

// answer answers the lookups that the object itself decides, and asks for the rest.
func (o *Object) answer(name string) (bool, error) {
	group, kind := o.Facts.Profile.Kind.Group, o.Facts.Profile.Kind.Kind
	volume := group == "" && (kind == claimKind || kind == volumeKind)
	switch {
	case name == expression.LookupOwned:
		metadata, _ := o.JSON["metadata"].(map[string]any)
		owners, _ := metadata["ownerReferences"].([]any)
		return len(owners) > 0, nil
	case (name == expression.LookupMounted || name == expression.LookupBound) && !volume:
		return false, fmt.Errorf("%s: is for PersistentVolumes and PersistentVolumeClaims, not for a %s", name, kind)
	case name == expression.LookupService && !o.Facts.IsPod():
		return false, fmt.Errorf("%s: is for Pods, not for a %s", name, kind)
	}
	if field := fieldOf(name, kind); field != "" {
		if _, shown := o.JSON[field].(map[string]any); !shown {
			return false, fmt.Errorf("%s: %s is not known of this %s", name, field, kind)
		}
	}
	switch {
	case name == expression.LookupBound:
		return o.bound(name)
	case o.Lookup == nil:
		return false, fmt.Errorf("%s is not known here", name)
	default:
		return o.Lookup(name)
	}
}

// bound reports whether a volume or a claim is in phase Bound.
func (o *Object) bound(name string) (bool, error) {
	status, _ := o.JSON["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	switch phase {
	case "Bound":
		return true, nil
	case "Available", "Released", "Pending", "Lost":
		return false, nil
	default:
		return false, fmt.Errorf("%s: status.phase is %q", name, quote.Shorten(phase))
	}
}
