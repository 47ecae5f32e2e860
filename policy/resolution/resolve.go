package resolution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// Resolve walks the levels of precedence: the level decides first, the outcome within it. Policies
// in dry-run decide nothing.
func Resolve(facts *policy.Facts, scope *Scope) Effective {
	return resolve(walk{facts: facts, scope: scope})
}

// ResolveTraced is [Resolve] that also returns the levels it considered.
func ResolveTraced(facts *policy.Facts, scope *Scope) (Effective, *Trace) {
	trace := &Trace{}
	return resolve(walk{facts: facts, scope: scope, trace: trace}), trace
}

// ResolveTrial is [Resolve] that asks the policies in dry-run as well, after all other levels. The
// controller reports what their values make due, see [Value.DryRun].
func ResolveTrial(facts *policy.Facts, scope *Scope) Effective {
	return resolve(walk{facts: facts, scope: scope, trial: true})
}

func resolve(from walk) Effective {
	facts, trace := from.facts, from.trace
	out := Effective{DryRun: from.scope.Mode() == ModeDryRun, LeaveNative: from.scope.LeaveNative, NoMultiKueue: from.scope.NoMultiKueue}
	out.Counter = from.scope.Counter
	out.Propagation, _, out.PropagationErr = from.scope.Propagation()
	if facts.Profile.Finishable() {
		w := from
		w.ttl()
		succeeded, failed := w.winner.Setting(facts, lifetime.Succeeded), w.winner.Setting(facts, lifetime.Failed)
		out.Succeeded = w.value(succeeded)
		if out.Failed = out.Succeeded; failed != succeeded {
			out.Failed = w.value(failed)
		}
		if trace != nil {
			trace.TTL = w.finish(&out)
		}
	}
	if facts.Profile.HasDeadline() {
		w := from
		w.deadline = true
		w.activeDeadline()
		out.Deadline = w.value(w.winner.set.All)
		if trace != nil {
			trace.Deadline = w.finish(&out)
		}
	}
	return out
}

// walk goes through the levels of precedence for one value. The first level that decides wins.
type walk struct {
	facts *policy.Facts
	scope *Scope
	// deadline is true for a walk about the deadline, false for one about the TTL.
	deadline bool
	// winner decides; its source is empty where no level does.
	winner level
	// closed says why no further level is asked.
	closed string
	// trial asks the policies in dry-run where no other level decides.
	trial bool
	// trace is nil if the caller wants none. Otherwise steps record the levels after the winner as
	// well.
	trace *Trace
	steps []Step
}

// level is one level of precedence as it applies to one object.
type level struct {
	source lifetime.Source
	// set has the settings; a deadline is in All.
	set lifetime.TTLSet
	// final decides without a setting: a runtime that is missing, or a TTL that was removed.
	final bool
	// skipped says why the level is not asked about this object.
	skipped string
	// since and backfill tell which objects a default reaches.
	since    time.Time
	backfill bool
	// dryRun means that the level is a policy in dry-run.
	dryRun bool
}

// ask considers the next level and reports whether the walk is over.
func (w *walk) ask(next level) bool {
	decides := w.closed == "" && next.skipped == "" && (next.final || !next.set.Empty())
	if w.trace != nil {
		w.steps = append(w.steps, w.step(&next, decides))
	}
	if decides {
		w.winner, w.closed = next, "a level above sets the value"
	}
	return w.closed != "" && w.trace == nil
}

// noDefault says why no level gives the object a default, or returns "".
func (w *walk) noDefault() string {
	reason := NoDefault(w.facts, w.scope)
	if counter := w.scope.Counter; counter != nil && counter.Source.Level == lifetime.LevelTally {
		reason = noDefault(w.facts, w.scope)
	}
	switch {
	case w.scope.Protected:
		return "no default, as the namespace is protected (--protect)"
	case w.deadline && w.facts.IsPod():
		return "no default deadline for a Pod" // whatever its profile says (S5)
	case reason != "":
		return "no default, as the object " + reason
	case w.deadline && !w.scope.gives(policy.TriggerDeadline):
		return "no default, as trigger deadline is switched off"
	case !w.deadline && !w.scope.gives(policy.TriggerTTL):
		return "no default, as trigger ttl is switched off"
	default:
		return ""
	}
}

// close keeps the levels that follow from deciding and reports whether the walk is over.
func (w *walk) close(reason string) bool {
	w.closed = cmp.Or(w.closed, reason)
	return w.trace == nil
}

func (w *walk) ttl() {
	facts := w.facts
	if runtime := w.scope.Runtime; runtime != nil {
		next := level{source: lifetime.Source{Level: lifetime.LevelRuntime, Name: runtime.Name}, set: runtime.TTL,
			final: runtime.Missing, since: runtime.Since, backfill: runtime.Backfill}
		if manager := facts.ForeignManager(w.scope.NoMultiKueue); manager != "" {
			// A TTL here makes the manager in another cluster dispatch the object again (S5).
			next.skipped, next.final = "the object is managed by "+manager, true
		}
		if w.ask(next) {
			return
		}
		if w.closed != "" {
			w.closed = "the runtime sets the value"
		}
	} else if w.trace != nil {
		w.steps = append(w.steps, Step{Source: lifetime.Source{Level: lifetime.LevelRuntime}, Why: "the object uses no runtime"})
	}
	own := facts.TTLs()
	if w.ask(level{source: lifetime.Source{Level: lifetime.LevelObject}, set: own, final: own.Empty() && stamped(facts, w.scope)}) {
		return
	}
	if counter := w.scope.Counter; counter != nil && w.ask(counter.level()) {
		return
	}
	if w.closed != "" {
		w.closed = "a level above sets the value"
	} else if reason := w.noDefault(); reason != "" && w.close(reason) {
		return
	}
	w.defaults()
}

// ofPolicy is what a policy sets, and why it is not asked.
func (w *walk) ofPolicy(platformPolicy *PlatformPolicy) (set lifetime.TTLSet, skipped string) {
	if w.deadline {
		return lifetime.TTLSet{All: platformPolicy.Deadline}, ""
	}
	if w.facts.IsPod() && w.facts.Owner != nil && !platformPolicy.NamesKind {
		return platformPolicy.TTL, "a policy gives Pods with an owner a TTL only if its match.kinds name Pod"
	}
	return platformPolicy.TTL, ""
}

// defaults asks the namespace, then the policies that are not skipped.
func (w *walk) defaults() {
	if namespacePolicy := w.scope.Namespace; namespacePolicy != nil {
		next := level{source: lifetime.Source{Level: lifetime.LevelNamespace, Name: namespacePolicy.Name}, since: namespacePolicy.Since, backfill: namespacePolicy.Backfill}
		if next.set = namespacePolicy.ttlFor(w.facts); w.deadline {
			next.set = lifetime.TTLSet{All: namespacePolicy.Deadline}
		}
		if w.ask(next) {
			return
		}
	}
	var trials []level
	for _, platformPolicy := range w.scope.Policies {
		next := level{source: platformPolicy.Source(), since: platformPolicy.Since, backfill: platformPolicy.Backfill}
		next.set, next.skipped = w.ofPolicy(platformPolicy)
		if platformPolicy.Mode == ModeDryRun {
			next.dryRun = true
			trials = append(trials, next)
			next.skipped = "its mode is DryRun"
		}
		if w.ask(next) {
			return
		}
	}
	for _, next := range trials {
		if w.trial && w.ask(next) {
			return
		}
	}
}

// activeDeadline asks the object first. A runtime's deadline is a default, which is stamped at
// creation: a later change of the runtime does not reach what runs.
func (w *walk) activeDeadline() {
	facts := w.facts
	if w.ask(level{source: lifetime.Source{Level: lifetime.LevelObject}, set: lifetime.TTLSet{All: facts.Deadline()}}) {
		return
	}
	if reason := w.noDefault(); reason != "" && w.close(reason) {
		return
	}
	if runtimePolicy := w.scope.Runtime; runtimePolicy != nil {
		next := level{source: lifetime.Source{Level: lifetime.LevelRuntime, Name: runtimePolicy.Name}, set: lifetime.TTLSet{All: runtimePolicy.Deadline}}
		unusable := runtimePolicy.Unusable() != nil
		if unusable {
			next.set = lifetime.TTLSet{}
		}
		if w.ask(next) {
			return
		}
		// Its deadline may be longer than the deadlines of the levels below (S6).
		if unusable && w.close("no default, as the runtime may say a longer one") {
			return
		}
	}
	if !facts.Profile.DefaultDeadline && w.close("no default deadline for a "+facts.Profile.Kind.Kind) {
		return
	}
	w.defaults()
}

// Trace lists the levels that [ResolveTraced] considered, in order of precedence.
type Trace struct {
	// TTL is empty for kinds that never finish.
	TTL []Step
	// Deadline is empty for kinds that have none.
	Deadline []Step
}

// Step is one level of precedence.
type Step struct {
	Source lifetime.Source
	// Settings are empty where the level sets nothing.
	Settings []*lifetime.Setting
	// Decides is set on the level that wins, even if it decides that there is no value.
	Decides bool
	// Changed means that the object's stamp names a source that does not give this value, although its
	// defaults are older than the object. The value counts as the author's.
	Changed bool
	// Why says why the level decides, is not asked or does not reach the object, where the settings
	// do not show it.
	Why string
}

// Decider is the step that decides; nil where none does.
func Decider(steps []Step) *Step {
	for i := range steps {
		if steps[i].Decides {
			return &steps[i]
		}
	}
	return nil
}

// step records a level. It runs only if the caller wants the trace.
func (w *walk) step(from *level, decides bool) Step {
	step := Step{Source: from.source, Settings: from.set.Settings(), Decides: decides}
	runtime := w.scope.Runtime
	switch fromRuntime := from.source.Level == lifetime.LevelRuntime; {
	case fromRuntime && w.deadline && runtime.Unusable() != nil:
		step.Why = "the runtime does not exist or cannot be read"
	case fromRuntime && decides && runtime.Missing:
		step.Settings, step.Why = nil, "the runtime does not exist or cannot be read, so the object is kept"
	case decides && from.source.Level == lifetime.LevelObject:
		step.Why, step.Changed = w.whyOwn(from)
	case decides:
		step.Why = w.whyReached(from)
	case from.final || len(step.Settings) > 0:
		step.Why = "not used: " + cmp.Or(from.skipped, w.closed)
	}
	return step
}

// whyOwn says how the object's own value came about, and whether it has been changed since.
func (w *walk) whyOwn(from *level) (why string, changed bool) {
	if from.final {
		return "the value was removed after creation, which means none", false
	}
	stamp := wellknown.AnnotationTTLSource
	if w.deadline {
		stamp = wellknown.AnnotationDeadlineSource
	}
	source, stamped := defaultSource(w.facts.Annotations, stamp)
	switch {
	case !stamped || w.scope.Creating:
		return "", false
	case w.deadline || w.givesAgain(source):
		return "defaulted at creation from " + source.Phrase(), false
	case w.stoodAtCreation(source):
		return "its source annotation names " + source.Phrase() + ", which gives another value: it counts as set on the object", true
	default:
		return "defaulted at creation from " + source.Phrase() + ", or changed since", false
	}
}

// stoodAtCreation reports whether the defaults of a source are older than the object.
func (w *walk) stoodAtCreation(source lifetime.Source) bool {
	older := func(since time.Time) bool { return !since.IsZero() && w.facts.Created.After(since) }
	switch namespace := w.scope.Namespace; source.Level {
	case lifetime.LevelNamespace:
		return namespace != nil && older(namespace.Since)
	case lifetime.LevelPolicy:
		return slices.ContainsFunc(w.scope.Policies, func(p *PlatformPolicy) bool { return p.Name == source.Name && older(p.Since) })
	default:
		return false
	}
}

// givesAgain reports whether a source would give the object now the TTL that it carries. If not,
// one of the two was changed since the creation. A source that gives nothing now proves nothing.
func (w *walk) givesAgain(source lifetime.Source) bool {
	creating := *w.scope
	creating.Creating = true
	again, own := walk{facts: w.facts, scope: &creating}, w.facts.TTLs()
	again.defaults()
	for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
		gives, has := again.value(again.winner.Setting(w.facts, outcome)), own.For(outcome)
		switch {
		case gives.Source != source || gives.Err != nil:
			return true
		case gives.Set != (has != nil) || has != nil && gives.TTL != has.TTL:
			return false
		}
	}
	return true
}

// whyReached says why a default reaches an object that does not carry it, or does not.
func (w *walk) whyReached(from *level) string {
	young, reaches := w.reach(from)
	since, finished := from.since.UTC().Format(time.RFC3339), from.source.Level == lifetime.LevelRuntime && !w.deadline
	switch {
	case young:
		return ""
	case reaches && finished:
		return "the object finished before the runtime got this TTL, and backfill includes it"
	case reaches:
		return "the object is older than the default, and backfill includes it"
	case finished && from.since.IsZero():
		return fmt.Sprintf("the runtime has no %s yet: objects that have finished need %s on the runtime",
			wellknown.AnnotationDefaultSince, wellknown.AnnotationBackfill)
	case finished:
		return fmt.Sprintf("the object finished before the runtime got this TTL at %s: it needs %s on the runtime",
			since, wellknown.AnnotationBackfill)
	case from.since.IsZero():
		return "when the default was set is not recorded, and backfill is off: it applies to objects created from now on"
	default:
		return fmt.Sprintf("the object is older than the default, which was set at %s, and backfill is off", since)
	}
}

// finish adds the resulting values to the step that decides.
func (w *walk) finish(e *Effective) []Step {
	step, values := Decider(w.steps), []Value{e.Succeeded, e.Failed}
	switch {
	case step == nil:
		return w.steps
	case w.deadline:
		values = []Value{e.Deadline}
	case step.Why == "" && w.facts.Finished && !e.TTL(w.facts.Outcome).Set:
		step.Why = "it sets no TTL for objects that " + w.facts.Outcome.String()
	}
	clamped := ""
	for _, setting := range step.Settings {
		for _, value := range values {
			moved := value.Set && value.Err == nil && value.Path == setting.Path && value.TTL != setting.TTL
			if to := "clamped to " + value.TTL.String(); moved && to != clamped {
				step.Why, clamped = strings.TrimPrefix(step.Why+"; "+to, "; "), to
			}
		}
	}
	return w.steps
}
