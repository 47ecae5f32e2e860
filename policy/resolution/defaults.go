package resolution

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// Assignment is one field that admission sets, or removes if Value is nil.
type Assignment struct {
	Path fieldpath.FieldPath
	// Value is an int64, a string, a list ([]any), or nil to remove the field.
	Value any
}

// Defaults returns the values that admission fills in on CREATE: the TTL (the native field if the
// profile has one and the TTL is one constant, else annotations), the deadline, and their sources.
// It is idempotent, and empty in a namespace in dry-run.
func Defaults(facts *policy.Facts, effective *Effective, scope *Scope) []Assignment {
	if scope.Mode() == ModeDryRun {
		return nil
	}
	return append(ttlAssignments(facts, effective, scope), deadlineAssignments(facts, effective, scope)...)
}

func ttlAssignments(facts *policy.Facts, effective *Effective, scope *Scope) []Assignment {
	var out []Assignment
	succeeded, failed := effective.Succeeded, effective.Failed
	// Resolved live: stamps would touch what an owner makes, or override a tally's ttlAfterCounted.
	owned := facts.IsPod() && (facts.Owner != nil || scope.Tallied)
	if !owned && (succeeded.fillIn() || failed.fillIn()) {
		out = append(out, fillTTL(facts, succeeded, failed, scope)...)
	}
	return append(out, stamp(facts, wellknown.AnnotationTTLSource, ttlSource(succeeded, failed, owned))...)
}

func (v Value) fillIn() bool { return v.Default && v.Err == nil }

func fillTTL(facts *policy.Facts, succeeded, failed Value, scope *Scope) []Assignment {
	same := succeeded.fillIn() && failed.fillIn() && succeeded.TTL == failed.TTL
	switch {
	case same && facts.Profile.TTL != nil && !scope.AnnotationsOnly && !succeeded.TTL.Never:
		return []Assignment{{Path: facts.Profile.TTL, Value: succeeded.TTL.Seconds()}}
	case same:
		return []Assignment{annotate(wellknown.AnnotationTTL, succeeded.TTL.String())}
	}
	var out []Assignment
	if succeeded.fillIn() {
		out = append(out, annotate(wellknown.AnnotationTTLSucceeded, succeeded.TTL.String()))
	}
	if failed.fillIn() {
		out = append(out, annotate(wellknown.AnnotationTTLFailed, failed.TTL.String()))
	}
	return out
}

func ttlSource(succeeded, failed Value, owned bool) string {
	for _, value := range []Value{succeeded, failed} {
		if value.Set && value.Err == nil && !(owned && value.Default) {
			return value.Source.String()
		}
	}
	return ""
}

func deadlineAssignments(facts *policy.Facts, effective *Effective, scope *Scope) []Assignment {
	value := effective.Deadline
	if !value.fillIn() {
		source, copied := "", copiedDeadline(facts, value, scope)
		if len(copied) > 0 { // So that the copy follows the annotation: see [Unfilled] and [Restamp].
			source = string(lifetime.LevelObject)
		}
		return append(copied, stamp(facts, wellknown.AnnotationDeadlineSource, source)...)
	}
	return append([]Assignment{deadlineAssignment(facts, value)}, stamp(facts, wellknown.AnnotationDeadlineSource, value.Source.String())...)
}

// copiedDeadline copies the author's annotation into the empty native field, so that the kind's own
// controller enforces it too.
func copiedDeadline(facts *policy.Facts, value Value, scope *Scope) []Assignment {
	_, annotated := facts.Annotations[wellknown.AnnotationActiveDeadline]
	empty := facts.FillsNativeDeadline() && !facts.NativeDeadline.Set
	if !annotated || !empty || !value.Set || value.Err != nil || scope.Protected || !scope.gives(policy.TriggerDeadline) ||
		facts.Protected() || facts.ForeignManager(scope.NoMultiKueue) != "" {
		return nil
	}
	return []Assignment{deadlineAssignment(facts, value)}
}

func deadlineAssignment(facts *policy.Facts, value Value) Assignment {
	switch {
	case !facts.FillsNativeDeadline():
		return annotate(wellknown.AnnotationActiveDeadline, value.TTL.String())
	case facts.Profile.DurationDeadline:
		return Assignment{Path: facts.Profile.Deadline, Value: value.TTL.After.String()}
	default:
		return Assignment{Path: facts.Profile.Deadline, Value: value.TTL.Seconds()}
	}
}

// stamp sets one of Curfew's own annotations, whatever the author put there.
func stamp(facts *policy.Facts, key, want string) []Assignment {
	have, ok := facts.Annotations[key]
	switch {
	case want == "" && ok:
		return []Assignment{{Path: fieldpath.FieldPath{"metadata", "annotations", key}}}
	case want != "" && have != want:
		return []Assignment{annotate(key, want)}
	}
	return nil
}

func annotate(key, value string) Assignment {
	return Assignment{Path: fieldpath.FieldPath{"metadata", "annotations", key}, Value: value}
}

// Default is a value that an object was given, or would be given, for people to read.
type Default struct {
	// Field is the name of the field or the key of the annotation.
	Field string
	// Value as people read it: "86400 (1d)" for native fields, "1d" for annotations.
	Value  string
	Source lifetime.Source
	// DryRun means that the value would have been given: the namespace or a policy is in dry-run.
	DryRun bool
}

// String is the announcement: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "ci".
func (d Default) String() string {
	verb, mode := "defaulted", ""
	if d.DryRun {
		verb, mode = "would be defaulted", " (dry-run)"
	}
	return fmt.Sprintf("%s %s to %s from %s%s", d.Field, verb, d.Value, d.Source.Phrase(), mode)
}

// Defaulted reads off an object which defaults admission gave it, the TTL label included, and which
// it would have given if nothing were in dry-run.
func Defaulted(facts *policy.Facts, scope *Scope, now time.Time) []Default {
	var out []Default
	if scope.Mode() != ModeDryRun {
		out = filledIn(facts)
	}
	if scope.inDryRun() {
		out = append(out, wouldDefault(facts, scope, now)...)
	}
	if label := DefaultedLabel(facts, scope, now); label != nil {
		out = append(out, *label)
	}
	return out
}

// filledIn are the defaults that the stamps of a new object name.
func filledIn(facts *policy.Facts) []Default {
	var out []Default
	if source, ok := defaultSource(facts.Annotations, wellknown.AnnotationTTLSource); ok {
		set := facts.TTLs()
		for _, setting := range set.Settings() {
			if setting.Err == nil {
				out = append(out, defaultIn(setting, slices.Contains(set.Natives(), setting), source))
			}
		}
	}
	if source, ok := defaultSource(facts.Annotations, wellknown.AnnotationDeadlineSource); ok {
		if setting := facts.Deadline(); setting != nil && setting.Err == nil {
			filled := defaultIn(setting, facts.NativeDeadline.Set, source)
			if facts.NativeDeadline.Set && facts.Profile.DurationDeadline {
				filled.Value = setting.Text
			}
			out = append(out, filled)
		}
	}
	return out
}

// defaultSource is the source that a stamp names, and whether it is a default. A runtime gives
// default deadlines; its TTL is never written into the object, so the stamp is only informational.
func defaultSource(annotations map[string]string, stamp string) (lifetime.Source, bool) {
	source := lifetime.ParseSource(annotations[stamp])
	return source, source.IsDefault() || source.Level == lifetime.LevelRuntime && stamp == wellknown.AnnotationDeadlineSource
}

func defaultIn(setting *lifetime.Setting, native bool, source lifetime.Source) Default {
	value := setting.TTL.String()
	if native {
		value = lifetime.FormatSeconds(setting.TTL.After)
	}
	return Default{Field: shownName(setting.Path), Value: value, Source: source}
}

// shownName is a field as messages for people name it: the annotation's key, or the path below
// spec.
func shownName(path string) string {
	if strings.HasSuffix(path, "]") {
		return lifetime.FieldName(path)
	}
	return strings.TrimPrefix(path, "spec.")
}

func wouldDefault(facts *policy.Facts, scope *Scope, now time.Time) []Default {
	enforced := scope.asEnforced()
	facts, _ = Unfilled(facts, scope, now)
	given, effective := Resolve(facts, scope), Resolve(facts, enforced)
	filled := Defaults(facts, &given, scope)
	var out []Default
	for _, assignment := range Defaults(facts, &effective, enforced) {
		if slices.ContainsFunc(filled, func(previous Assignment) bool {
			return slices.Equal(previous.Path, assignment.Path) && previous.Value == assignment.Value
		}) {
			continue
		}
		name := assignment.Path[len(assignment.Path)-1]
		shown := name
		if assignment.Path[0] == "spec" {
			shown = shownName(assignment.Path.String())
		}
		source := effective.Succeeded.Source
		switch {
		case name == wellknown.AnnotationTTLSource || name == wellknown.AnnotationDeadlineSource:
			continue
		case name == wellknown.AnnotationTTLFailed:
			source = effective.Failed.Source
		case name == wellknown.AnnotationActiveDeadline || slices.Equal(assignment.Path, facts.Profile.Deadline):
			source = effective.Deadline.Source
		}
		if source.Level == lifetime.LevelObject {
			continue // It is its author's word, only in another place.
		}
		value := fmt.Sprint(assignment.Value)
		if seconds, ok := assignment.Value.(int64); ok {
			value = lifetime.FormatSeconds(time.Duration(seconds) * time.Second)
		}
		out = append(out, Default{Field: shown, Value: value, Source: source, DryRun: true})
	}
	return out
}

// NoDefault says why the object may not be given a default ("is owned by JobSet a"), or returns ""
// (S5). A child that is deleted alone breaks its JobSet, TrainJob or Workflow.
func NoDefault(facts *policy.Facts, scope *Scope) string {
	if reason := noDefault(facts, scope); reason != "" {
		return reason
	}
	if facts.Owner != nil && !facts.IsCronJobsJob() && !facts.IsJobsPod() {
		return fmt.Sprintf("is owned by %s %s", facts.Owner.Kind, facts.Owner.Name)
	}
	return ""
}

// noDefault is [NoDefault] for an object whose owner does not mind, such as a Pod that a PodTally
// has counted.
func noDefault(facts *policy.Facts, scope *Scope) string {
	if facts.Protected() {
		// The kind's own controller would act on a native field, whatever the annotation says.
		return "is protected"
	}
	if facts.CurfewsOwn() {
		return "is part of Curfew" // No TTL, label or deadline of Curfew's deletes it.
	}
	if manager := facts.ForeignManager(scope.NoMultiKueue); manager != "" {
		return "is managed by " + manager
	}
	if facts.IsPod() && facts.AlwaysRestarts() {
		return "has restartPolicy Always"
	}
	return ""
}

// LeftToPolicies reports which defaults of an object depend on the policies: those that its
// namespace does not set. Its own values make no difference, since a default that was filled in has
// to be recognised.
func LeftToPolicies(facts *policy.Facts, namespace *NamespacePolicy) (ttl, deadline bool) {
	if namespace == nil {
		return true, true
	}
	return namespace.ttlFor(facts).Empty(), namespace.Deadline == nil
}

// ttlFor returns the TTL that the namespace sets for one object. default-pod-ttl wins for Pods, and
// is all of a namespace that applies to owned Pods.
func (n *NamespacePolicy) ttlFor(facts *policy.Facts) lifetime.TTLSet {
	if facts.IsPod() && (n.PodTTL != nil || facts.Owner != nil) {
		return lifetime.TTLSet{All: n.PodTTL}
	}
	return n.TTL
}
