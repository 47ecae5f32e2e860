package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// Entry is one expiry or deadline of an object.
type Entry struct {
	Kind            Kind
	Namespace, Name string
	UID             types.UID
	Labels          map[string]string
	// Created and Finished are times of the object. Finished is zero where it has not finished, or
	// does not say when.
	Created, Finished time.Time

	Trigger policy.Trigger
	Source  lifetime.Source
	// Value is its TTL or deadline. ByOutcome: it depends on the outcome, and Value is the longer
	// one.
	Value     lifetime.TTL
	ByOutcome bool
	// Expiry is zero while the object has not finished.
	Expiry time.Time
	// Estimated: the object does not say when it finished, so that the TTL starts when the
	// controller sees it.
	Estimated bool
	// Native is set where the kind's own controller deletes the object, and Curfew does not, or
	// would later. No obstacle of Curfew's stops that.
	Native    *resolution.NativeDeletion
	Obstacles []judging.Obstacle
	// With is set by [World.Follow] where the object is deleted with another one first.
	With *Cascade
	// CronJob owns the Job; empty for none. History are its limits, if they were asked for.
	CronJob, History string
	// Uncertain: something that the user may not read could keep it from Curfew.
	Uncertain bool
}

// Blocker is the first obstacle that keeps the object, nil for none.
func (e *Entry) Blocker() *judging.Obstacle {
	for i := range e.Obstacles {
		if e.Obstacles[i].Stops {
			return &e.Obstacles[i]
		}
	}
	return nil
}

// Entries are the expiry and the deadline of an object; none where it stays. They do not regard
// obstacles, which are reported beside them, unless the kind's own controller deletes the object
// all the same.
func (w *World) Entries(ctx context.Context, kind Kind, object map[string]any, now time.Time) ([]Entry, error) {
	explained, err := w.Explain(ctx, kind, object, now)
	if err != nil {
		return nil, err
	}
	facts, native := explained.Facts, NativeDeletion(explained.Facts, now)
	free := judging.Explain(judging.Unobstructed(facts), explained.Scope, judging.Question{Now: now, Alias: w.Controller.Alias})
	var out []Entry
	if entry, ok := w.goes(free, now); ok {
		out = append(out, entry)
	} else if native != nil {
		out = append(out, nativeEntry(free, native))
	}
	if verdict := free.ByDeadline; verdict.Trigger == policy.TriggerDeadline {
		out = append(out, Entry{Trigger: verdict.Trigger, Source: verdict.Source, Value: free.Effective.Deadline.TTL, Expiry: verdict.Expiry})
	}
	for _, verdict := range free.Others {
		if entry, ok := entryOf(free, verdict); ok && judging.Stops(verdict.Trigger) {
			out = append(out, entry)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	obstacles, err := w.Obstacles(ctx, kind, explained)
	if err != nil {
		return nil, err
	}
	obstacles, values := withoutValues(obstacles)
	uncertain, err := w.uncertain(ctx, kind, explained)
	if err != nil {
		return nil, err
	}
	for i := range out {
		entry := &out[i]
		var blocked []judging.Obstacle
		if !entry.Expiry.IsZero() && !entry.Expiry.After(now) {
			if blocked, err = w.blocked(ctx, blockageOf(facts, judging.Stops(entry.Trigger))); err != nil {
				return nil, err
			}
		}
		entry.Obstacles = slices.Concat(obstacles, blocked, w.SwitchedOff(facts, entry.Trigger), explained.Held(entry.Trigger),
			w.HeldByPause(facts, entry.Trigger, entry.Expiry))
		if native != nil && entry.overtakenBy(native) {
			byNative := nativeEntry(free, native)
			byNative.Obstacles = entry.Obstacles
			*entry = byNative
		}
		if entry.Native != nil {
			entry.Obstacles = append(entry.Obstacles, values...)
			for j := range entry.Obstacles {
				entry.Obstacles[j].Stops = false // They stop Curfew alone.
			}
		}
		entry.Uncertain = uncertain && entry.Native == nil && entry.Blocker() == nil
		entry.Kind, entry.Namespace, entry.Name, entry.UID = kind, facts.Namespace, facts.Name, facts.UID
		entry.Labels, entry.CronJob, entry.Created, entry.Finished = facts.Labels, cronJobOf(facts), facts.Created, facts.FinishTime
	}
	return out, nil
}

// withoutValues takes unusable values out of obstacles: they only block their own trigger. The
// kind's own controller acts on them all the same.
func withoutValues(all []judging.Obstacle) (obstacles, values []judging.Obstacle) {
	for _, obstacle := range all {
		if obstacle.Kind == judging.ObstacleValue {
			values = append(values, obstacle)
		} else {
			obstacles = append(obstacles, obstacle)
		}
	}
	return obstacles, values
}

// SwitchedOff is why Curfew does not carry out a trigger of an object at all: it is switched off,
// or no controller runs. The kind's own controller may enforce a deadline all the same.
func (w *World) SwitchedOff(facts *policy.Facts, trigger policy.Trigger) []judging.Obstacle {
	if trigger == policy.TriggerDeadline && !Stops(facts) {
		return nil
	}
	return append(w.Controller.Surroundings().SwitchedOff(trigger), w.Controller.down()...)
}

// Stops reports whether Curfew itself stops an object at its deadline.
func Stops(facts *policy.Facts) bool {
	return facts.DeadlineByCurfew || facts.Profile.AnnotatedDeadline && !facts.NativeDeadline.Set
}

// goes is the deletion that comes first; ok is false where there is none. A trigger that is
// switched off or held counts only where no other one acts.
func (w *World) goes(e *judging.Explanation, now time.Time) (first Entry, ok bool) {
	off := func(trigger policy.Trigger) bool {
		return slices.Contains(w.Controller.Off, trigger) || len(e.Held(trigger)) > 0
	}
	first, ok = byTTL(e, now)
	for _, verdict := range slices.Concat([]policy.Verdict{e.ByLabel}, e.Others) {
		entry, due := entryOf(e, verdict)
		if !due || judging.Stops(entry.Trigger) {
			continue
		}
		sooner := first.Expiry.IsZero() || entry.Expiry.Before(first.Expiry)
		if off(first.Trigger) != off(entry.Trigger) {
			sooner = off(first.Trigger)
		}
		if !ok || sooner {
			first, ok = entry, true
		}
	}
	return first, ok
}

// entryOf is the entry of a verdict about when an object is due; ok is false for others.
func entryOf(e *judging.Explanation, verdict policy.Verdict) (Entry, bool) {
	if verdict.Action == policy.Keep || verdict.Expiry.IsZero() {
		return Entry{}, false
	}
	from := e.Facts.Created
	if verdict.Trigger == policy.TriggerLabel {
		from, _ = e.Facts.LabelClock() // A label whose clock cannot be read has no expiry.
	}
	life := max(0, verdict.Expiry.Sub(from)).Truncate(time.Second)
	return Entry{Trigger: verdict.Trigger, Source: verdict.Source, Value: lifetime.TTL{After: life}, Expiry: verdict.Expiry}, true
}

func byTTL(e *judging.Explanation, now time.Time) (Entry, bool) {
	verdict, value := e.ByTTL, e.Effective.TTL(e.Facts.Outcome)
	entry := Entry{Trigger: policy.TriggerTTL, Source: sourceOf(e, value), Value: value.TTL}
	switch verdict.Action {
	case policy.Wait, policy.Delete:
		entry.Expiry = verdict.Expiry
		return entry, true
	case policy.RecordFinish:
		entry.Expiry, entry.Estimated = now.Add(value.TTL.After), true
		return entry, true
	}
	if e.Effective.LeftToKubernetes(e.Facts) {
		return entry, false
	}
	if e.Facts.Finished {
		return entry, usable(value) && value.TTL.Never
	}
	// The outcome decides once the object has finished.
	longer, other := e.Effective.Succeeded, e.Effective.Failed
	if usable(other) && (!usable(longer) || other.TTL.Never || !longer.TTL.Never && other.TTL.After > longer.TTL.After) {
		longer, other = other, longer
	}
	if !usable(longer) || e.Facts.StateError != nil || (e.Facts.IsPod() && e.Facts.AlwaysRestarts()) {
		return entry, false
	}
	entry.Source, entry.Value = sourceOf(e, longer), longer.TTL
	entry.ByOutcome = !usable(other) || other.TTL != longer.TTL
	return entry, true
}

// sourceOf is the source of a TTL. A stamp that its source does not bear out is ignored.
func sourceOf(e *judging.Explanation, value resolution.Value) lifetime.Source {
	if decides := resolution.Decider(e.TTL); decides != nil && decides.Changed {
		return decides.Source
	}
	return value.Source
}

func usable(value resolution.Value) bool { return value.Set && value.Err == nil }

// NativeDeletion is the deletion by the kind's own controller, as far as that may act; nil where it
// does not.
func NativeDeletion(facts *policy.Facts, now time.Time) *resolution.NativeDeletion {
	native := resolution.NativeDeletionOf(facts)
	if native == nil || facts.Deleting || !native.Expiry.IsZero() && native.Expiry.Add(nativeGrace).Before(now) {
		return nil
	}
	return native
}

// nativeEntry is an entry by the native TTL.
func nativeEntry(e *judging.Explanation, native *resolution.NativeDeletion) Entry {
	source := lifetime.Source{Level: lifetime.LevelObject}
	for _, value := range []resolution.Value{e.Effective.Succeeded, e.Effective.Failed} {
		if value.Set && value.Path == native.Setting.Path {
			source = sourceOf(e, value)
		}
	}
	return Entry{
		Trigger: policy.TriggerTTL, Source: source, Value: native.Setting.TTL, ByOutcome: native.ByOutcome,
		Expiry: native.Expiry, Native: native,
	}
}

// overtakenBy reports whether the kind's own controller deletes the object before Curfew does, or
// although something keeps Curfew from it.
func (e *Entry) overtakenBy(native *resolution.NativeDeletion) bool {
	switch {
	case judging.Stops(e.Trigger) || e.Native != nil:
		return false
	case e.Blocker() != nil:
		return true
	case native.Expiry.IsZero():
		return e.Expiry.IsZero() && (e.Value.Never || e.Value.After > native.Setting.TTL.After)
	default:
		return e.Expiry.IsZero() || native.Expiry.Before(e.Expiry)
	}
}

// DeletedBy names the controller that deletes the object in Curfew's place; "" for none.
func (e *Entry) DeletedBy() string {
	if e.Native == nil {
		return ""
	}
	return e.Kind.Profile.NativeDeleter()
}

// NamespaceEntries are the entries of a Namespace itself, or of all for ""; none of what the user
// may not read.
func (w *World) NamespaceEntries(ctx context.Context, name string, now time.Time) ([]Entry, error) {
	kind, ok, err := w.Kind(namespaceResource.GroupResource())
	if err != nil || !ok {
		return nil, err
	}
	if name == "" {
		var out []Entry
		err := w.EachOf(ctx, kind, Query{}, func(object map[string]any) error {
			entries, err := w.Entries(ctx, kind, object, now)
			out = append(out, entries...)
			return err
		})
		if Refused(err) {
			w.Lack("list namespaces")
			err = nil
		}
		return out, err
	}
	read, err := w.objects(namespaceResource, "").Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return w.Entries(ctx, kind, read.Object, now)
}

// cronJobOf is the name of the CronJob that owns a Job; "" for none.
func cronJobOf(facts *policy.Facts) string {
	if facts.Owner == nil || facts.Owner.Kind != "CronJob" || facts.Owner.APIVersion != "batch/v1" {
		return ""
	}
	return facts.Owner.Name
}

// nativeGrace is how long after the native TTL an object may still be there before that shows that
// the kind's own controller does not act: it is switched off, or refused.
const nativeGrace = 5 * time.Minute

// BlockRun adds the obstacles to all cleanup runs to the entry of one policy.
func (w *World) BlockRun(entry *Entry) {
	around := w.Controller.Surroundings()
	scope := judging.PauseScope(entry.Kind.Group, entry.Kind.Kind, entry.Namespace, entry.Name)
	blocked := slices.Concat(around.SwitchedOff(policy.TriggerCleanup), w.Controller.down(),
		w.heldByPause(scope, policy.TriggerCleanup, entry.Expiry))
	if around.DryRun {
		blocked = append(blocked, judging.Obstacle{Kind: judging.ObstacleDryRun, Message: "the controller runs with --dry-run", Stops: true})
	}
	entry.Obstacles = append(blocked, entry.Obstacles...)
	entry.Uncertain = (entry.Uncertain || len(w.Controller.unknown()) > 0) && entry.Blocker() == nil
}
