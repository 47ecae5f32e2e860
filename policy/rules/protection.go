package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// protection denies annotation curfew.dev/protect, and the label of MultiKueue's copies, where a LifecyclePolicy says bounds.protect:
// Deny, except to users who may update that policy. If it is not known whether the user may, or
// whether the policy matches, the bound applies. It is a bound of admission alone: protected
// objects stay protected. A controller's objects are admitted with the annotations of their
// template, so the rule denies the template, too.
var protection = Rule{
	Name: "protection",
	Fields: []string{AnnotationField(wellknown.AnnotationProtect), LabelField(wellknown.LabelMultiKueueOrigin), InPodTemplate + AnnotationField(wellknown.AnnotationProtect),
		InInherited + AnnotationField(wellknown.AnnotationProtect)},
	Beside: []string{inClaim + AnnotationField(wellknown.AnnotationProtect)},
	Check: func(s *Subject) {
		for _, protected := range s.protections() {
			var found []Finding
			for _, platformPolicy := range s.denying(protected) {
				found = append(found, s.protectionDenied(platformPolicy, protected))
			}
			if len(found) > 0 {
				denial := slices.IndexFunc(found, func(finding Finding) bool { return finding.Severity == Deny })
				s.found = append(s.found, found[max(denial, 0)])
			}
		}
	},
}

// protected is metadata that has the annotation, of the object or of the objects made from it.
// Their kind is empty if it is not known.
type protected struct {
	path, field, text string
	kind              schema.GroupKind
}

func (s *Subject) protections() []protected {
	var out []protected
	add := func(path string, metadata map[string]any, kind schema.GroupKind) {
		annotations, _ := metadata["annotations"].(map[string]any)
		if text, ok := annotations[wellknown.AnnotationProtect].(string); ok && text != "false" {
			out = append(out, protected{path, AnnotationField(wellknown.AnnotationProtect), text, kind})
		}
	}
	metadata, _ := s.Object["metadata"].(map[string]any)
	add("metadata", metadata, s.Profile.Kind.GroupKind())
	if s.MultiKueueCopy() && !s.IsTemplate() {
		origin := wellknown.LabelMultiKueueOrigin
		out = append(out, protected{"metadata", LabelField(origin), s.Labels[origin], s.Profile.Kind.GroupKind()})
	}
	for _, path := range s.Profile.PodTemplates {
		path.Child("metadata").Walk(s.Object, func(found string, value any) {
			metadata, _ := value.(map[string]any)
			add(found, metadata, policy.PodProfile.Kind.GroupKind())
		})
	}
	for _, path := range s.Profile.Inherited() {
		path.Walk(s.Object, func(found string, value any) {
			metadata, _ := value.(map[string]any)
			add(found, metadata, schema.GroupKind{})
		})
	}
	return out
}

// denying returns the policies that deny a protection to the user of the request: policies that
// match the object, and policies that bound the objects made from it. Without match.kinds a policy
// applies to objects with a TTL label if their kind has no profile.
func (s *Subject) denying(p protected) []*resolution.PlatformPolicy {
	if s.Scope == nil {
		return nil
	}
	_, _, labelled := s.Options.ttlLabel(s.Facts)
	var out []*resolution.PlatformPolicy
	for _, platformPolicy := range s.Scope.Policies {
		if platformPolicy.Protect != nil && (platformPolicy.NamesKind || labelled || !s.Profile.Unknown) && s.Access.Policies[platformPolicy.Name] != Yes {
			out = append(out, platformPolicy)
		}
	}
	if p.kind.Kind == "" || p.path == "metadata" && !s.IsTemplate() {
		return out
	}
	for _, platformPolicy := range s.protecting(p.kind) {
		matches := func(other *resolution.PlatformPolicy) bool { return other.Name == platformPolicy.Name }
		if s.Access.Policies[platformPolicy.Name] != Yes && !slices.ContainsFunc(s.Scope.Policies, matches) {
			out = append(out, platformPolicy)
		}
	}
	return out
}

func (s *Subject) protectionDenied(platformPolicy *resolution.PlatformPolicy, p protected) Finding {
	source := platformPolicy.Source().Phrase()
	message := fmt.Sprintf("is against bounds.protect of %s: leave it out, or ask for the verb update on that LifecyclePolicy", source)
	finding := Finding{Rule: s.rule, Field: s.path(p.path + "." + p.field), Value: p.text,
		Severity: Deny, Level: lifetime.LevelPolicy, Message: message}
	switch platformPolicy.Mode {
	case resolution.ModeWarn:
		finding.Severity = Warn
		return finding
	case resolution.ModeDryRun:
		finding.Severity, finding.Message = Warn, wouldBeRefused+message
		return finding
	}
	undecided := (*lifetime.UndecidedError)(nil)
	switch {
	case errors.As(platformPolicy.Protect.Err, &undecided):
		finding.Message, finding.Retry = fmt.Sprintf("bounds.protect of %s cannot be checked: %v", source, platformPolicy.Protect.Err), undecided.Retry
	case s.Access.Policies[platformPolicy.Name] == Later:
		finding.Message, finding.Retry = finding.Message+" (whether you may is not known yet: try again in a second)", true
	case s.Access.Policies[platformPolicy.Name] == Unknown:
		finding.Message += " (whether you may is not known)"
	}
	return finding
}

// ProtectionDeniedBy are the names of policies that deny a protection which a request sets, unless
// the user may update them.
func ProtectionDeniedBy(request *Request) []string {
	request.attest()
	if request.Facts.Deleting || request.Scope == nil {
		return nil
	}
	subjects := request.subjects(request.Facts, request.Object)
	found := request.check([]Rule{protection}, subjects)
	if request.Operation == Update && request.OldFacts != nil && len(found) > 0 {
		found = added(found, request.check([]Rule{protection}, request.subjects(request.OldFacts, request.Old)))
	}
	if len(found) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, subject := range subjects {
		for _, protected := range subject.protections() {
			for _, platformPolicy := range subject.denying(protected) {
				names[platformPolicy.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
