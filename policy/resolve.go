package policy

import (
	"fmt"
	"time"
)

// Level is a rung of precedence; the first that says something decides.
type Level string

// The levels, in their order.
const (
	LevelRuntime   Level = "runtime"
	LevelObject    Level = "object"
	LevelNamespace Level = "namespace"
	LevelPolicy    Level = "policy"
)

// Source names where a value came from: the level, and the name of what speaks there.
type Source struct {
	Level Level
	Name  string
}

// String is the source as annotations, logs and metrics hold it: "object", "namespace/ci", "policy/platform".
func (s Source) String() string {
	if s.Name == "" {
		return string(s.Level)
	}
	return string(s.Level) + "/" + s.Name
}

// Scope is what surrounds an object when it is judged.
type Scope struct {
	// Namespace is nil for cluster-scoped objects.
	Namespace *NamespacePolicy
	// Runtime is what the object's training runtime says; nil without one.
	Runtime *RuntimePolicy
	// Policies are the platform policies that match the object, the one that speaks first at the front.
	Policies []*PlatformPolicy
	// Creating is true while admission judges a CREATE: the object is as new as can be, and a ttl-source that it carries
	// is its author's, who has no say in it.
	Creating bool
	// AnnotationsOnly is --native-ttl=off: defaults are annotations, and Curfew alone deletes.
	AnnotationsOnly bool
}

// Mode is the namespace's mode; enforce for cluster-scoped objects.
func (s *Scope) Mode() Mode {
	if s.Namespace == nil {
		return ModeEnforce
	}
	return s.Namespace.Mode
}

// RuntimePolicy is what a training runtime says for the objects that use it.
type RuntimePolicy struct {
	// Name as sources write it.
	Name string
	// Path is where the object names it.
	Path string
	TTL  TTLSet
	// Deadline is nil where the runtime says nothing of one.
	Deadline *Setting
	// Missing means that the object names a runtime that does not exist: keep, and report.
	Missing bool
	// Err says why it cannot be told which runtime the object uses; Missing is then true.
	Err error
}

// Unusable says why nothing is known of what the runtime says, or returns nil.
func (r *RuntimePolicy) Unusable() error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("the runtime cannot be told: %w", r.Err)
	case r.Missing:
		return fmt.Errorf("the runtime %s does not exist: create it, or delete the object by hand", r.Name)
	default:
		return nil
	}
}

// PlatformPolicy is what a LifecyclePolicy says for one object that it matches: its expressions are evaluated already.
type PlatformPolicy struct {
	Name     string
	TTL      TTLSet
	Deadline *Setting
	Bounds   Bounds
	// Since is the instant from which its defaults hold for what admission missed; zero means not at all.
	Since    time.Time
	Backfill bool
	// WarnOnly is action Warn: a value outside of the bounds passes with a warning.
	WarnOnly bool
	// WarnBelow is the TTL under which authors are warned; zero where the policy does not say.
	WarnBelow time.Duration
	// Label is the TTL label that the policy gives to what has none; nil where it gives none.
	Label *Setting
	// LatestDate is the last instant that a TTL label may come to; zero means no bound.
	LatestDate time.Time
	// LatestUnreadable is the latest date where it cannot be read, or where it cannot be told whether it holds; else nil.
	LatestUnreadable *Setting
}

// Value is an effective TTL or deadline.
type Value struct {
	// Set is false where no level said anything. Such an object stays.
	Set bool
	// TTL holds the value. A deadline that is never is one that the author wrote there is not to be.
	TTL    TTL
	Source Source
	// Path and Text are what was written where.
	Path, Text string
	// Default means that the value comes from a namespace or policy and is not in the object yet.
	Default bool
	// Live means that the value can change without the object changing, so that it is read again before a deletion.
	Live bool
	// Backfill means that it reaches an object older than itself, at a capped rate.
	Backfill bool
	// Err says why the level that decides cannot be used: keep, and report (S6).
	Err error
}

// Effective is what holds for one object.
type Effective struct {
	Succeeded, Failed Value
	Deadline          Value
	// DryRun means that what is due is reported and not deleted.
	DryRun bool
}

// TTL is the value for an outcome.
func (e *Effective) TTL(outcome Outcome) Value {
	if outcome == Failed {
		return e.Failed
	}
	return e.Succeeded
}

// Resolve walks the levels of precedence: the level decides first, the outcome within it.
func Resolve(facts *Facts, scope *Scope) Effective {
	return Effective{
		Succeeded: resolveTTL(facts, scope, Succeeded),
		Failed:    resolveTTL(facts, scope, Failed),
		Deadline:  resolveDeadline(facts, scope),
		DryRun:    scope.Mode() == ModeDryRun,
	}
}

func resolveTTL(facts *Facts, scope *Scope, outcome Outcome) Value {
	if !facts.Profile.Finishable() {
		return Value{}
	}
	// What another cluster's manager answers for is left alone: a TTL there makes it dispatch the object again (S5).
	if scope.Runtime != nil && facts.ForeignManager() == "" && (scope.Runtime.Missing || !scope.Runtime.TTL.Empty()) {
		return runtimeTTL(scope.Runtime, outcome)
	}
	own := facts.TTLs()
	setting := own.For(outcome)
	if facts.Errored && outcome == Failed && setting == own.NativeFailed {
		setting = own.Native
	}
	if setting != nil {
		return objectTTL(facts, scope, setting)
	}
	if !own.Empty() {
		// The object level has spoken, for the other outcome.
		return Value{}
	}
	if stamped(facts, scope) {
		return takenAway(facts, scope)
	}
	if NoDefault(facts) != "" {
		return Value{}
	}
	return defaultTTL(facts, scope, outcome)
}

func runtimeTTL(runtime *RuntimePolicy, outcome Outcome) Value {
	source := Source{LevelRuntime, runtime.Name}
	if err := runtime.Unusable(); err != nil {
		return Value{Set: true, Source: source, Path: runtime.Path, Live: true, Err: err}
	}
	setting := runtime.TTL.For(outcome)
	if setting == nil {
		return Value{}
	}
	return Value{Set: true, TTL: setting.TTL, Source: source, Path: setting.Path, Text: setting.Text, Live: true, Err: setting.Err}
}

// stamped reports whether the object had a TTL of its own or was given a default. That a runtime spoke is only noted for people:
// its TTL is never written into the object.
func stamped(facts *Facts, scope *Scope) bool {
	text, ok := facts.Annotations[AnnotationTTLSource]
	return ok && !scope.Creating && ParseSource(text).Level != LevelRuntime
}

// takenAway is what holds for an object whose TTL was removed: none. Where a max-ttl holds that is refused, and reported of what
// slipped past.
func takenAway(facts *Facts, scope *Scope) Value {
	limit := scope.EnforcedFor(facts).MaxTTL
	if limit == nil || limit.Err != nil {
		return Value{}
	}
	return Value{Set: true, Source: Source{Level: LevelObject}, Err: fmt.Errorf("its TTL was removed while %s holds: set %s or less", limit.Bound(), limit.TTL)}
}

func objectTTL(facts *Facts, scope *Scope, setting *Setting) Value {
	value := Value{Set: true, TTL: setting.TTL, Source: Source{Level: LevelObject}, Path: setting.Path, Text: setting.Text, Err: setting.Err}
	if source, ok := defaultOf(facts, scope, AnnotationTTLSource); ok {
		value.Source = source
		bounds := scope.EnforcedFor(facts)
		value.atLeast(bounds.MinTTL, bounds.beside.minTTL)
		return value
	}
	if value.Err == nil {
		value.Err = scope.EnforcedFor(facts).CheckTTL(value.TTL)
	}
	return value
}

// atLeast is all that later bounds do to a default that admission filled in. It was clamped then; they do not reach back, and do not shorten it
// (S6). Below a minimum it is nevertheless raised: the stamp beside a short value may be forged by whoever wrote it past admission.
func (v *Value) atLeast(low, beside *Setting) {
	if v.Err != nil || v.TTL.Never {
		return
	}
	for _, bound := range []*Setting{low, beside} {
		switch {
		case bound == nil:
		case bound.Err != nil:
			v.Err = &UnreadableBoundError{Bound: bound}
		default:
			v.TTL.After = max(v.TTL.After, bound.TTL.After)
		}
	}
}

// defaultOf is the source of the default that the object's TTL or deadline is, by its stamp. Another namespace's gives nothing here.
func defaultOf(facts *Facts, scope *Scope, stamp string) (Source, bool) {
	if scope.Creating {
		return Source{}, false // What it carries is its author's.
	}
	source, ok := defaultSource(facts.Annotations, stamp)
	return source, ok && (source.Level != LevelNamespace || source.Name == facts.Namespace)
}

// NoDefault says why no default may be given to the object, or returns "" (S5). A child that goes away alone breaks its
// JobSet, TrainJob or Workflow.
func NoDefault(facts *Facts) string {
	if facts.Protected() {
		// A native field that was filled in would have the kind's own controller delete what its author protects.
		return "is protected"
	}
	if facts.CurfewsOwn() {
		return "is part of Curfew" // Which no TTL, label or deadline of Curfew's deletes.
	}
	if manager := facts.ForeignManager(); manager != "" {
		return "managed by " + manager
	}
	if facts.IsPod() {
		if facts.AlwaysRestarts() {
			return "restartPolicy is Always"
		}
		if facts.OwnedByJob() {
			return ""
		}
	}
	if facts.Owner != nil && !facts.isCronJobsJob() {
		return fmt.Sprintf("owned by %s %s", facts.Owner.Kind, facts.Owner.Name)
	}
	return ""
}

func (f *Facts) isCronJobsJob() bool {
	return f.Profile.Kind.GroupKind() == JobProfile.Kind.GroupKind() && f.OwnedByCronJob()
}

// minCronJobTTL lets the CronJob controller see its Job finished, else it reports MissingJob and loses
// status.lastSuccessfulTime.
const minCronJobTTL = time.Minute

func defaultTTL(facts *Facts, scope *Scope, outcome Outcome) Value {
	if namespace := scope.Namespace; namespace != nil {
		if set := namespace.ttlFor(facts); !set.Empty() {
			value := Value{Source: Source{LevelNamespace, namespace.Name}}
			return value.defaulted(facts, scope, set.For(outcome), namespace.Since, namespace.Backfill)
		}
	}
	if facts.IsPod() && facts.OwnedByJob() {
		return Value{}
	}
	for _, policy := range scope.Policies {
		if !policy.TTL.Empty() {
			value := Value{Source: Source{LevelPolicy, policy.Name}}
			return value.defaulted(facts, scope, policy.TTL.For(outcome), policy.Since, policy.Backfill)
		}
	}
	return Value{}
}

// LeftToPolicies says which defaults of an object the policies are asked for at all: those that its namespace says nothing of.
// It does not matter what the object says itself, since a default that was filled in has to be told from its author's word.
func LeftToPolicies(facts *Facts, namespace *NamespacePolicy) (ttl, deadline bool) {
	ttl = !facts.IsPod() || !facts.OwnedByJob()
	if namespace == nil {
		return ttl, true
	}
	set := namespace.ttlFor(facts)
	return ttl && set.Empty(), namespace.Deadline == nil
}

// ttlFor is what the namespace says for one object: default-pod-ttl speaks for Pods before the others and, for Pods of a
// Job, alone.
func (n *NamespacePolicy) ttlFor(facts *Facts) TTLSet {
	if facts.IsPod() && (n.PodTTL != nil || facts.OwnedByJob()) {
		return TTLSet{All: n.PodTTL}
	}
	return n.TTL
}

func (v Value) defaulted(facts *Facts, scope *Scope, setting *Setting, since time.Time, backfill bool) Value {
	if setting == nil || !v.reaches(facts, scope, setting, since, backfill) || v.Err != nil {
		return v
	}
	bounds := scope.BoundsFor(facts)
	v.TTL = bounds.ClampTTL(v.TTL)
	if facts.isCronJobsJob() && !v.TTL.Never && v.TTL.After < minCronJobTTL {
		v.TTL.After = minCronJobTTL
	}
	v.Err = bounds.CheckTTL(v.TTL)
	return v
}

// resolveDeadline asks the object first: a runtime's deadline is a default like those of the namespace and the policies, only that it comes
// before them. It is stamped at creation, so that a later change of the runtime reaches nothing that runs.
func resolveDeadline(facts *Facts, scope *Scope) Value {
	if !facts.Profile.HasDeadline() {
		return Value{}
	}
	if own := facts.Deadline(); own != nil {
		value := Value{Set: true, TTL: own.TTL, Source: Source{Level: LevelObject}, Path: own.Path, Text: own.Text, Err: own.Err}
		if source, ok := defaultOf(facts, scope, AnnotationDeadlineSource); ok {
			value.Source = source
			bounds := scope.Enforced()
			value.atLeast(bounds.MinDeadline, bounds.beside.minDeadline)
			return value
		}
		if value.Err == nil {
			value.Err = scope.Enforced().CheckDeadline(own.TTL)
		}
		return value
	}
	// A Pod is given no deadline whatever its profile says, and one of a Job least of all (S5).
	if facts.IsPod() || NoDefault(facts) != "" {
		return Value{}
	}
	if runtime := scope.Runtime; runtime != nil {
		switch {
		case runtime.Unusable() != nil:
			return Value{} // It may have a longer one than the levels below (S6).
		case runtime.Deadline != nil:
			// It is not known since when a runtime has its deadline. So it reaches only what is being created.
			value := Value{Source: Source{LevelRuntime, runtime.Name}}
			return value.defaultedDeadline(facts, scope, runtime.Deadline, time.Time{}, false)
		}
	}
	if !facts.Profile.DefaultDeadline {
		return Value{}
	}
	if namespace := scope.Namespace; namespace != nil && namespace.Deadline != nil {
		value := Value{Source: Source{LevelNamespace, namespace.Name}}
		return value.defaultedDeadline(facts, scope, namespace.Deadline, namespace.Since, namespace.Backfill)
	}
	for _, policy := range scope.Policies {
		if policy.Deadline != nil {
			value := Value{Source: Source{LevelPolicy, policy.Name}}
			return value.defaultedDeadline(facts, scope, policy.Deadline, policy.Since, policy.Backfill)
		}
	}
	return Value{}
}

func (v Value) defaultedDeadline(facts *Facts, scope *Scope, setting *Setting, since time.Time, backfill bool) Value {
	if v.reaches(facts, scope, setting, since, backfill) && v.Err == nil {
		bounds := scope.Bounds()
		v.TTL.After = bounds.ClampDeadline(v.TTL.After)
		v.Err = bounds.CheckDeadline(v.TTL)
	}
	return v
}

// reaches fills in the value where the default holds for the object: what is being created, what is younger than the
// default, and with backfill what is older. Equal times count as older, since they are whole seconds (S6).
func (v *Value) reaches(facts *Facts, scope *Scope, setting *Setting, since time.Time, backfill bool) bool {
	young := scope.Creating || (!since.IsZero() && facts.Created.After(since))
	if !young && !backfill {
		return false
	}
	v.Set, v.Default, v.Live, v.Backfill = true, true, true, !young
	v.TTL, v.Path, v.Text, v.Err = setting.TTL, setting.Path, setting.Text, setting.Err
	return true
}
