package rules

import (
	"fmt"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// namespaceValues denies annotations of a Namespace that cannot be read, or that contradict each
// other or the bounds of a policy, and warns of short default TTLs. A contradiction with a policy
// that does not enforce, or may not match all objects, is a warning.
var namespaceValues = Rule{
	Name:   "namespace-values",
	Fields: annotations(wellknown.NamespaceAnnotations...),
	Check: func(s *Subject) {
		if !s.IsNamespace() {
			return
		}
		namespace := resolution.ParseNamespace(s.Name, s.Annotations, s.Labels)
		for _, err := range namespace.Errors {
			s.deny(err.Field, fmt.Sprint(err.BadValue), err.Detail)
		}
		for _, pair := range namespace.Bounds.Contradictions() {
			s.deny(pair.Low.Path, pair.Low.Text+" "+pair.High.Text, pair.At(pair.Low))
		}
		if s.Outer != nil {
			for _, outer := range s.Outer(namespace) {
				contradictions(s, namespace, outer)
			}
		}
		for _, setting := range append(namespace.TTL.Settings(), lifetime.Present(namespace.PodTTL)...) {
			short(s, setting, "a Job or Pod")
		}
	},
}

// contradictions finds the bounds of a namespace that contradict the bounds of a policy, so that no
// value is left.
func contradictions(s *Subject, namespace *resolution.NamespacePolicy, outer *resolution.PlatformPolicy) {
	for _, pair := range outer.Bounds.Narrow(namespace.Bounds).Contradictions() {
		complain, would := s.deny, ""
		switch outer.Mode {
		case resolution.ModeDryRun:
			complain, would = s.warn, wouldBeRefused
		case resolution.ModeWarn:
			complain = s.warn
		}
		switch {
		case pair.Low.Source == pair.High.Source: // The fault of one of them alone, which has its own finding.
		case pair.Low.Source.Level == lifetime.LevelNamespace:
			complain(pair.Low.Path, pair.Low.Text+" "+pair.High.Bound(), would+pair.At(pair.Low))
		default:
			complain(pair.High.Path, pair.High.Text+" "+pair.Low.Bound(), would+pair.At(pair.High))
		}
	}
}
