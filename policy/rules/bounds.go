package rules

import (
	"slices"
	"strings"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// bounds denies values outside the bounds of the namespace and the policies. Where only the bounds
// of policies in mode Warn or DryRun are violated, it warns.
var bounds = Rule{
	Name:   "bounds",
	Fields: slices.Concat(ttlFields, podTTLField, deadlineField),
	InUse:  []string{NativeDeadline},
	Check: func(s *Subject) {
		if s.Profile.RuntimeOf != "" {
			runtimeBounds(s)
			return
		}
		for _, setting := range s.TTLs().Settings() {
			if setting.Err == nil && s.Profile.Finishable() {
				outside(s, setting, func(set resolution.BoundSet) error {
					return setting.Echo(s.Scope.BoundsFor(s.Facts, set).CheckTTL(setting.TTL))
				})
			}
		}
		if deadline := s.Deadline(); deadline.Readable() {
			outside(s, deadline, func(set resolution.BoundSet) error {
				return deadline.Echo(s.Scope.Bounds(set).CheckDeadline(deadline.TTL))
			})
		}
		podBounds(s)
	},
}

// podBounds checks the TTL that a Job sets for its Pods against what bounds Pods in its namespace.
// A policy that matches only some of them warns.
func podBounds(s *Subject) {
	if setting := s.PodTTL(); setting.Readable() && s.Scope != nil {
		outside(s, setting, othersBounds(s, setting))
	}
}

// othersBounds checks a TTL that an object sets for others.
func othersBounds(s *Subject, setting *lifetime.Setting) func(resolution.BoundSet) error {
	others := &resolution.Scope{Namespace: s.Scope.Namespace}
	if s.Outer != nil && others.Namespace != nil {
		others.Policies = s.Outer(others.Namespace)
	}
	return func(set resolution.BoundSet) error { return setting.Echo(others.Bounds(set).CheckTTL(setting.TTL)) }
}

// runtimeBounds checks the TTL of a namespaced runtime, which a tenant may write, against what
// bounds the objects that use it. A cluster-scoped runtime is a setting of the platform.
func runtimeBounds(s *Subject) {
	if s.Profile.ClusterScoped || s.IsTemplate() || s.Scope == nil || s.Scope.Namespace == nil {
		return
	}
	for _, setting := range s.TTLs().Settings() {
		if setting.Err == nil {
			outside(s, setting, othersBounds(s, setting))
		}
	}
}

// outside returns the finding about a value outside of some bounds. Bounds of policies come first,
// since a namespace's mode softens only its own. An unreadable bound is a warning, because the
// author of the value cannot fix it. A bound whose evaluation was stopped is a denial, because the
// author could make the object large enough for that.
func outside(s *Subject, setting *lifetime.Setting, check func(resolution.BoundSet) error) {
	outer, enforced := check(resolution.OuterBounds), check(resolution.EnforcedBounds)
	switch {
	case lifetime.Violated(outer):
		s.deny(setting.Path, setting.Text, outer.Error()).Level = lifetime.LevelPolicy
	case lifetime.Violated(enforced):
		s.deny(setting.Path, setting.Text, enforced.Error()).Level = lifetime.LevelNamespace
	case lifetime.Undecided(enforced) != nil:
		out := s.deny(setting.Path, setting.Text, "cannot be checked: "+enforced.Error())
		out.Retry = lifetime.Undecided(enforced).Retry
		if lifetime.Undecided(outer) != nil {
			out.Level = lifetime.LevelPolicy
		}
	case enforced != nil:
		s.warn(setting.Path, setting.Text, "cannot be checked, so the object will be kept: "+enforced.Error())
	default:
		softer(s, setting, check)
	}
}

// softer warns of a value outside the bounds of policies that reject nothing.
func softer(s *Subject, setting *lifetime.Setting, check func(resolution.BoundSet) error) {
	var messages []string
	if err := check(resolution.AllBounds); err != nil {
		messages = append(messages, err.Error())
	}
	if err := check(resolution.TrialBounds); lifetime.Violated(err) && !isDefault(s, setting) {
		messages = append(messages, wouldBeRefused+err.Error())
	}
	if len(messages) > 0 {
		s.warn(setting.Path, setting.Text, strings.Join(messages, "; "))
	}
}

// isDefault reports whether a value of a new object is a default. Bounds would clamp it, and not
// reject it.
func isDefault(s *Subject, setting *lifetime.Setting) bool {
	if s.Operation != Create || s.IsTemplate() {
		return false
	}
	return slices.ContainsFunc(resolution.Defaulted(s.Facts, s.Scope, s.Now), func(d resolution.Default) bool {
		return !d.DryRun && strings.HasSuffix(d.Field, setting.Field())
	})
}
