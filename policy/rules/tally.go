package rules

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
)

// Names of the rules about PodTallies.
const (
	// TallyOverlap: Pods of this tally also match another one.
	TallyOverlap = "tally-overlap"
	// TallyLimit: a namespace has so many PodTallies that this one would count nothing.
	TallyLimit = "tally-limit"
	// TallyCounts: the controller should be able to count.
	TallyCounts = "tally-counts"
)

// TallyRules are the names of the rules about PodTallies alone.
func TallyRules() []string {
	return []string{TallyOverlap, TallyLimit, TallyCounts}
}

// TallyRequest is one change of a PodTally.
type TallyRequest struct {
	// Tally is the new state, and Old the state before; nil on CREATE.
	Tally, Old *tally.Tally
	// Errors are the compile errors of the tally, and OldErrors of the old one.
	Errors, OldErrors field.ErrorList
	// Namespace of the tally, and the policies whose bounds apply to Pods there.
	Namespace *resolution.NamespacePolicy
	Outer     func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy
	// Others are the tallies of the namespace; the tally itself may be among them.
	Others []*tally.Tally
	// ControllerLacks means that the controller may not patch Pods in the namespace.
	ControllerLacks bool
	// Author is whether the user may delete Pods in the namespace, where [TallyRequest.SetsTTL].
	Author  Answer
	Options Options
}

// SetsTTL reports whether the request has Curfew delete Pods that it did not delete before.
func (r *TallyRequest) SetsTTL() bool {
	set := func(t *tally.Tally) bool { return t != nil && t.TTL.Ends() }
	return set(r.Tally) && (!set(r.Old) || r.Old.TTL.TTL != r.Tally.TTL.TTL)
}

// ReviewTally denies a PodTally that cannot be used, and one with a TTL outside the bounds that
// apply to Pods of its namespace. It warns of one that cannot count, or that counts not all the
// Pods it matches.
func ReviewTally(r *TallyRequest) *Decision {
	out := report{found: append(added(compiling(r.Errors), compiling(r.OldErrors)), added(r.aboutTTL(r.Tally), r.aboutTTL(r.Old))...)}
	if r.Author == No && r.SetsTTL() {
		out.rule = userMayDelete.Name
		out.add(r.Options.unlessRequired(), r.Tally.TTL.Path, r.Tally.TTL.Text, "sets when each Pod of this tally is deleted, "+
			fmt.Sprintf("but you may not delete it yourself: ask for the verb delete on pods in namespace %q", r.Tally.Namespace))
	}
	if r.Old == nil { // The selector does not change.
		r.limit(&out)
		r.overlaps(&out)
		r.counts(&out)
	}
	decision := &Decision{Findings: out.found}
	if r.Namespace != nil {
		decision.Soften(r.Namespace.Mode)
	}
	return decision
}

func (r *TallyRequest) aboutTTL(stored *tally.Tally) []Finding {
	if stored == nil || !stored.TTL.Readable() {
		return nil
	}
	s := &Subject{Request: &Request{Scope: &resolution.Scope{Namespace: r.Namespace}, Outer: r.Outer, Options: r.Options}}
	if s.rule = bounds.Name; r.Namespace != nil {
		outside(s, stored.TTL, othersBounds(s, stored.TTL))
	}
	s.rule = shortTTL.Name
	short(s, stored.TTL, "a Pod of this tally")
	return s.found
}

// limit denies a tally that would not count: the controller lets the oldest of a namespace count.
func (r *TallyRequest) limit(out *report) {
	counting, _ := tally.Within(slices.DeleteFunc(slices.Clone(r.Others), func(other *tally.Tally) bool { return other.Name == r.Tally.Name }))
	if out.rule = TallyLimit; len(counting) >= tally.MaxPerNamespace {
		out.deny("metadata.namespace", r.Tally.Namespace, fmt.Sprintf(
			"namespace %q has %d PodTallies, and no more may count: delete one, or use a wider selector", r.Tally.Namespace, len(counting)))
	}
}

// overlaps compares the selectors alone. Two that name different labels may match the same Pod or
// never do; the controller sees the Pods and reports that in the condition Conflicting.
func (r *TallyRequest) overlaps(out *report) {
	out.rule = TallyOverlap
	byName := func(a, b *tally.Tally) int { return strings.Compare(a.Name, b.Name) }
	for _, other := range slices.SortedFunc(slices.Values(r.Others), byName) {
		switch {
		case other.Deleting || other.Name == r.Tally.Name:
		case other.Covers(r.Tally):
			out.warn("spec.selector", other.Name,
				fmt.Sprintf("PodTally %q is older and matches every Pod of this one: this one counts none", other.Name))
		case r.Tally.Covers(other):
			out.warn("spec.selector", other.Name,
				fmt.Sprintf("PodTally %q is older and counts some of the Pods that this one matches", other.Name))
		}
	}
}

func (r *TallyRequest) counts(out *report) {
	out.rule = TallyCounts
	if slices.Contains(r.Options.Controller.Off, policy.TriggerTally) {
		out.warn("", "", "Curfew runs without trigger tally (--enable): no Pod is counted until an admin switches it on")
	}
	if r.ControllerLacks {
		out.warn("", "", fmt.Sprintf("Curfew's controller lacks the permission to patch Pods in namespace %q: "+
			"no Pod is counted until an admin grants that", r.Tally.Namespace))
	}
}
