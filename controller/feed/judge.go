package feed

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/stop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// sink is the part of the engine, or of one of its relists, that takes judged objects.
type sink interface {
	Upsert(expire.Entry)
	Terminating(expire.Entry, time.Time)
	Cancel(kind expire.Kind, uid types.UID, resourceVersion string, epoch uint64)
}

// listing is one list of a feed: a relist for each trigger, in the same order. It is nil for single
// events.
type listing []*expire.Relist

// sink is where the verdicts of a trigger go.
func (f *Feed) sink(relist listing, trigger int) sink {
	if relist == nil {
		return f.options.Engine
	}
	return relist[trigger]
}

// observe judges one state of an object.
func (f *Feed) observe(ctx context.Context, object runtime.Object) error {
	facts, err := f.kind.Facts(ctx, object)
	if err != nil {
		return err
	}
	return f.tell(ctx, facts, object, f.relist)
}

func (f *Feed) deleted(object metav1.Object) {
	for _, trigger := range f.triggers {
		f.options.Engine.Remove(trigger.handle, object.GetUID())
	}
	f.finishes.forget(object.GetUID())
	f.kind.Observer.Forget(object.GetUID())
}

// tell passes one state of an object to the engine, for each trigger. The object's context is read
// once, and only if a trigger needs it.
func (f *Feed) tell(ctx context.Context, facts *policy.Facts, object runtime.Object, relist listing) error {
	f.seen.Store(true)
	f.kind.Observer.See(object)
	if f.kind.Label == "" && (!facts.Finished || !facts.FinishTime.IsZero()) {
		// If it finishes again and its status has no finish time, that is a new instant (S6).
		f.finishes.forgetBy(facts.UID, facts.ResourceVersion)
	}
	var around *platform.Context
	epoch := f.options.Engine.Epoch() // Read before the context: later changes are newer than the judgement.
	for i, trigger := range f.triggers {
		to := f.sink(relist, i)
		switch {
		case facts.Deleting:
			to.Terminating(trigger.object(facts, policy.Verdict{}), facts.DeletingSince)
			continue
		case trigger.Idle != nil && trigger.Idle(facts):
			to.Cancel(trigger.handle, facts.UID, facts.ResourceVersion, epoch)
			continue
		case around == nil:
			var err error
			if around, err = f.context(ctx, facts, object, false); err != nil {
				return err
			}
		}
		if err := trigger.tell(facts, around, object, epoch, to); err != nil {
			return err
		}
	}
	return nil
}

// tell judges one state of an object and hands it on to the engine.
func (f *trigger) tell(facts *policy.Facts, around *platform.Context, object runtime.Object, epoch uint64, to sink) error {
	verdict, payload, err := f.verdict(facts, around, object)
	if err != nil {
		return err
	}
	f.report(facts, verdict)
	switch verdict.Action {
	case policy.Wait, policy.Delete, policy.Stop:
		due := f.object(facts, verdict)
		due.Epoch, due.Payload = epoch, payload
		to.Upsert(due)
	case policy.RecordFinish, policy.Keep:
		to.Cancel(f.handle, facts.UID, facts.ResourceVersion, epoch)
	default:
		return fmt.Errorf("verdict %q of %s %s/%s is not known: this is a bug", verdict.Action, f.kind.Profile.Name, facts.Namespace, facts.Name)
	}
	return nil
}

// verdict judges one state of an object, and returns the payload that the action needs, if any. One
// reading of the clock a call.
func (f *trigger) verdict(facts *policy.Facts, around *platform.Context, object runtime.Object) (policy.Verdict, any, error) {
	switch protect := f.options.Protect; {
	case judging.Protects(protect, facts.Namespace):
		return policy.Verdict{Action: policy.Keep, Reason: "is in a protected namespace"}, nil, nil
	case facts.IsNamespace() && judging.Protects(protect, facts.Name):
		return policy.Verdict{Action: policy.Keep, Reason: "is a protected namespace"}, nil, nil
	}
	state := &State{
		Facts: facts, Context: around, Now: f.options.Clock.Now(),
		JSON: func() (map[string]any, error) { return f.kind.JSON(object) },
	}
	verdict, payload, err := f.Trigger.Judge(state)
	if err == nil && verdict.Action == policy.RecordFinish {
		return f.recordFinish(state, verdict)
	}
	return verdict, payload, err
}

// Trigger is one reason to track the objects of a feed. The triggers of a kind share its watch and
// the facts of each state. Otherwise they are independent.
type Trigger struct {
	// Name of the trigger, as the engine knows it.
	Name policy.Trigger
	// Keys are the annotations and labels by which it acts. A value that an object has from its
	// owner's template does not count.
	Keys []string
	// Idle reports, from the object alone, that nothing can be due. It saves reading the context.
	// Nil means that the context is always read.
	Idle func(facts *policy.Facts) bool
	// Judge judges one state of an object, and returns the payload that the action needs, if any.
	Judge func(state *State) (policy.Verdict, any, error)
}

// State is one state of an object, with the context that it is judged in.
type State struct {
	Facts   *policy.Facts
	Context *platform.Context
	// JSON returns the object in its JSON form.
	JSON func() (map[string]any, error)
	Now  time.Time
}

// TriggerOf returns a trigger as it applies to a kind with a profile, or nil if nothing of that
// kind is ever due for it. Its judge sees running Pods only if the trigger is Unfinished ([Pods]).
type TriggerOf func(profile *expression.Profile) *Trigger

// TTLs is the trigger for TTLs after finished.
func TTLs(*expression.Profile) *Trigger {
	return &Trigger{
		Name: policy.TriggerTTL, Keys: policy.LimitKeys(policy.TriggerTTL),
		Idle: func(facts *policy.Facts) bool { return !facts.Finished && facts.StateError == nil },
		Judge: func(state *State) (policy.Verdict, any, error) {
			effective := resolution.ResolveTrial(state.Facts, &state.Context.Scope)
			return judging.Judge(state.Facts, &effective, state.Now), nil, nil
		},
	}
}

// labelled is the trigger for the TTL label under a key.
func labelled(key string) *Trigger {
	return &Trigger{
		Name: policy.TriggerLabel, Keys: []string{key},
		Judge: func(state *State) (policy.Verdict, any, error) {
			verdict := judging.JudgeLabel(state.Facts, key, &state.Context.Scope, state.Now)
			verdict.Live = state.Context.Undecided
			return verdict, nil, nil
		},
	}
}

// Deadlines is the trigger for deadlines. Its payload is a stop.Payload, with which the action
// stops the object in exactly the state that was judged. It is nil for kinds whose own controllers
// enforce deadlines.
func Deadlines(profile *expression.Profile) *Trigger {
	way := profile.Enforcement
	if way == nil || len(way.Stop) == 0 {
		return nil
	}
	plan := planOf(profile)
	return &Trigger{
		Name: policy.TriggerDeadline, Keys: policy.LimitKeys(policy.TriggerDeadline),
		Idle: func(facts *policy.Facts) bool { return facts.Finished && facts.Exceeded.IsZero() },
		Judge: func(state *State) (policy.Verdict, any, error) {
			effective := resolution.ResolveTrial(state.Facts, &state.Context.Scope)
			verdict := judging.JudgeDeadline(state.Facts, &effective, way.Grace, state.Now)
			if verdict.Action != policy.Wait && verdict.Action != policy.Stop {
				return verdict, nil, nil
			}
			content, err := state.JSON()
			if err != nil {
				return verdict, nil, err
			}
			return verdict, stop.PayloadOf(plan, state.Facts, content, effective.Deadline.TTL.After), nil
		},
	}
}

func planOf(profile *expression.Profile) *stop.Plan {
	plan := &stop.Plan{
		Kind: profile.Kind, Resource: profile.Kind.GroupVersion().WithResource(profile.Resource), Steps: profile.Enforcement.Stop,
	}
	if profile.Suspend != nil {
		plan.Suspend, plan.SuspendValue = profile.Suspend.Path, profile.Suspend.Value
	}
	return plan
}

func (f *trigger) object(facts *policy.Facts, verdict policy.Verdict) expire.Entry {
	return expire.Entry{
		Kind: f.handle, Namespace: facts.Namespace, Name: facts.Name, UID: facts.UID, ResourceVersion: facts.ResourceVersion,
		Expiry: verdict.Expiry, Phase: phase(verdict.Trigger), Source: verdict.Source.String(),
		// A runtime can set a TTL at any time, so read it again even if another source decided. Kueue
		// can be installed at any time, too.
		Live: verdict.Live || f.kind.Runtime != nil || f.asksOwner(facts) || facts.MultiKueueCopy(), Backfill: verdict.Backfill, DryRun: verdict.DryRun,
		Propagation: verdict.Propagation,
	}
}

// phase distinguishes a check of an object that was stopped from its deadline.
func phase(trigger policy.Trigger) string {
	if trigger == policy.TriggerDeadlineCheck {
		return "check"
	}
	return ""
}

// Judge reads one object live and judges it for the first trigger of its kind.
func (f *Feed) Judge(ctx context.Context, tracked expire.Entry) (expire.Judgement, error) {
	return f.triggers[0].judgeLive(ctx, tracked)
}

// judgeLive reads one object and its context live and judges its current state. The engine calls it
// after a conflict, and if something outside of the object decides (S1).
func (f *trigger) judgeLive(ctx context.Context, tracked expire.Entry) (expire.Judgement, error) {
	object, err := f.read(ctx, tracked.Namespace, tracked.Name)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return expire.Judgement{Verdict: expire.Gone}, nil
	case err != nil: // The kind may not be served at the moment, which says nothing of the object (S3).
		return expire.Judgement{}, fmt.Errorf("re-reading %s %s/%s: %w", f.kind.Profile.Name, tracked.Namespace, tracked.Name, err)
	}
	facts, err := f.kind.Facts(ctx, object)
	if err != nil {
		return expire.Judgement{}, err
	}
	switch {
	case facts.Deleting && facts.UID != tracked.UID:
		return expire.Judgement{Verdict: expire.Gone}, nil // The watch reports the new object of that name (S2).
	case facts.Deleting:
		return expire.Judgement{Verdict: expire.BeingDeleted, Since: facts.DeletingSince}, nil
	}
	around, err := f.context(ctx, facts, object, true)
	if err != nil {
		return expire.Judgement{}, err
	}
	if f.kind.rules != nil && !f.kind.rules.Same(around.Platform.Compiled(f.kind.Profile.Kind.GroupKind())) {
		return expire.Judgement{}, errProfileChanged
	}
	verdict, payload, err := f.verdict(facts, around, object)
	if err == nil {
		verdict, err = f.inherited(ctx, facts, verdict)
	}
	if err != nil {
		return expire.Judgement{}, err
	}
	f.report(facts, verdict)
	switch verdict.Action {
	case policy.Wait, policy.Delete, policy.Stop:
		// The answer carries the UID of a re-created object, so that the engine does not treat it
		// as the old one (S2).
		due := f.object(facts, verdict)
		due.Payload = payload
		if due.Propagation, err = f.propagation(verdict, around); err != nil {
			return expire.Judgement{}, err
		}
		found, err := meta.Accessor(object)
		if err != nil {
			return expire.Judgement{}, fmt.Errorf("metadata of %s %s/%s: %w", f.kind.Profile.Name, facts.Namespace, facts.Name, err)
		}
		return expire.Judgement{Verdict: expire.Track, Object: due, Finalizers: found.GetFinalizers(),
			Agrees: f.agrees(facts, object, verdict, due.Propagation)}, nil
	}
	if facts.UID != tracked.UID {
		return expire.Judgement{Verdict: expire.Gone}, nil
	}
	return expire.Judgement{Verdict: expire.Keep}, nil
}
