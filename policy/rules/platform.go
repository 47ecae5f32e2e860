package rules

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// PlatformRules are the names of the rules about Curfew's own objects alone.
func PlatformRules() []string {
	return []string{PolicyCompiles, PolicyBounds, PolicyDryRun, CleanupAuthor, CleanupAccount, CleanupApproval, cleanupRuns}
}

// PlatformRequest is one change to a LifecyclePolicy or KindProfile.
type PlatformRequest struct {
	// Errors are the compile errors of the object, and OldErrors of the old one.
	Errors, OldErrors field.ErrorList
	// Policy is the LifecyclePolicy, and OldPolicy the old one; nil for KindProfiles and on CREATE.
	Policy, OldPolicy *expression.Policy
	// Namespaces are the namespaces with bounds.
	Namespaces []*resolution.NamespacePolicy
	Options    Options
	Now        time.Time
}

// ReviewPlatform denies a LifecyclePolicy or KindProfile with a part that cannot be used, by field
// and, within an expression, by line and column. A fault that the request does not change passes.
func ReviewPlatform(request *PlatformRequest) *Decision {
	out := report{found: append(added(compiling(request.Errors), compiling(request.OldErrors)),
		added(request.about(request.Policy), request.about(request.OldPolicy))...)}
	request.dryRun(&out)
	return &Decision{Findings: out.found}
}

// dryRun warns authors who switch a policy to mode DryRun about the deletions that this does not
// hold.
func (r *PlatformRequest) dryRun(out *report) {
	if r.Policy == nil || r.OldPolicy == nil || r.Policy.Mode != resolution.ModeDryRun || r.OldPolicy.Mode == resolution.ModeDryRun {
		return
	}
	var native []string
	if r.OldPolicy.GivesTTL() {
		native = append(native, "ttlSecondsAfterFinished")
	}
	if r.OldPolicy.GivesDeadline() {
		native = append(native, "activeDeadlineSeconds")
	}
	if out.rule = PolicyDryRun; len(native) > 0 {
		out.warn("spec.mode", "DryRun",
			"Curfew deletes and stops nothing more by the defaults of this policy, but where admission filled in a native field, such as "+
				strings.Join(native, " or ")+" of a Job, the kind's own controller acts on it: remove the field there")
	}
}

// about are the findings about a policy that compiles.
func (r *PlatformRequest) about(policy *expression.Policy) []Finding {
	if policy == nil {
		return nil
	}
	var out report
	for _, bound := range policy.Bounds.Settings() {
		out.found = append(out.found, contradictoryBounds(policy, bound, r.Namespaces)...)
	}
	limit := cmp.Or(policy.WarnBelow, r.Options.warnBelow())
	warn := func(rule *Rule, field, value, message string) {
		out.rule = rule.Name
		out.warn(field, value, message)
	}
	for _, setting := range policy.ConstantTTLs() {
		if message := shortMessage(setting, limit, "an object that gets it"); message != "" {
			warn(&shortTTL, setting.Path, setting.Text, message)
		}
	}
	over := func(t time.Time) bool { return !r.Now.IsZero() && !t.IsZero() && !t.After(r.Now) }
	// No label is given with a date that is over, and none lies within one (S6).
	if setting := policy.ConstantLabel(); setting != nil && setting.Err == nil {
		switch label, err := lifetime.ParseTTLLabel(setting.Text); {
		case err != nil:
		case over(label.At):
			warn(&ttlLabel, setting.Path, setting.Text, setting.Text+" is over: nothing is given this label; use a later date")
		case label.At.IsZero() && label.After < limit:
			warn(&shortTTL, setting.Path, setting.Text, shortLabelMessage(label, limit, "an object that gets it"))
		}
	}
	labelling(&out, policy)
	if over(policy.LatestDate) {
		day := policy.LatestDate.UTC().Format(time.DateOnly)
		warn(&ttlLabel, "spec.bounds.latestDate", day, day+" is over: every TTL label is after it; use a later date")
	}
	return out.found
}

// labelling are the findings about the objects that a policy's TTL label reaches.
func labelling(out *report, policy *expression.Policy) {
	out.rule = ttlLabel.Name
	for _, kind := range policy.NotLabelled() {
		out.warn("spec.match.kinds", kind.String(),
			fmt.Sprintf("objects of kind %s are given no TTL label: leave it out, or label them by hand", kind.Kind))
	}
	if setting := policy.ConstantLabel(); setting != nil && policy.Backfill && policy.Mode != resolution.ModeDryRun {
		if label, err := lifetime.ParseTTLLabel(setting.Text); err == nil && label.At.IsZero() {
			out.warn("spec.backfill", setting.Text, fmt.Sprintf("existing objects that are older than %s are deleted "+
				"as soon as they are given the label; to see how many, use mode DryRun first", label))
		}
	}
}

// contradictoryBounds is the finding about a bound of a policy that contradicts the bounds of
// namespaces. It names the first and counts the others.
func contradictoryBounds(policy *expression.Policy, bound *lifetime.Setting, namespaces []*resolution.NamespacePolicy) []Finding {
	var first *lifetime.Contradiction
	finding := Finding{Rule: PolicyBounds, Field: bound.Path, Value: bound.Text, Severity: Deny}
	count := 0
	for _, namespace := range namespaces {
		platformPolicy := policy.Bounding(namespace)
		if platformPolicy == nil {
			continue
		}
		for _, pair := range platformPolicy.Bounds.Narrow(namespace.Bounds).Contradictions() {
			if pair.Low.Source == pair.High.Source || pair.Low != bound && pair.High != bound {
				continue
			}
			if count++; first == nil {
				first = pair
			}
			finding.Value += " " + namespace.Name
			if platformPolicy.Mode != resolution.ModeEnforce {
				finding.Severity = Warn
			}
		}
	}
	if first == nil {
		return nil
	}
	if finding.Message = first.At(bound); policy.Mode == resolution.ModeDryRun {
		finding.Message = wouldBeRefused + finding.Message
	}
	if count > 1 {
		finding.Message += fmt.Sprintf("; the same in %d more", count-1)
	}
	return []Finding{finding}
}
