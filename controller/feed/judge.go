package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// sink is the part of the engine, or of one of its relists, that takes judged objects.
type sink interface {
	Upsert(engine.Object)
	Terminating(engine.Object, time.Time)
	Cancel(uid types.UID, resourceVersion string)
}

// sinks take the verdicts of a feed, one for each trigger, in the same order.
type sinks []sink

// watched is the sink of single events.
type watched struct {
	*engine.Engine
	kind engine.Kind
}

func (w watched) Cancel(uid types.UID, resourceVersion string) {
	w.Engine.Cancel(w.kind, uid, resourceVersion)
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

// tell passes one state of an object to the engine, for each trigger. The object's context is read
// once, and only if a trigger needs it.
func (f *Feed) tell(ctx context.Context, facts *policy.Facts, object runtime.Object, to sinks) error {
	f.seen.Store(true)
	f.kind.Observer.See(object)
	if f.kind.Label == "" && (!facts.Finished || !facts.FinishTime.IsZero()) {
		// If it finishes again and its status has no finish time, that is a new instant (S6).
		f.finishes.forgetBy(facts.UID, facts.ResourceVersion)
	}
	var around *platform.Context
	epoch := f.options.Engine.Epoch() // Read before the context: later changes are newer than the judgement.
	for i, one := range f.triggers {
		switch {
		case facts.Deleting:
			to[i].Terminating(one.object(facts, policy.Verdict{}), facts.DeletingSince)
			continue
		case one.Idle != nil && one.Idle(facts):
			to[i].Cancel(facts.UID, facts.ResourceVersion)
			continue
		case around == nil:
			var err error
			if around, err = f.context(ctx, facts, object, false); err != nil {
				return err
			}
		}
		if err := one.tell(facts, around, object, epoch, to[i]); err != nil {
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
		to.Cancel(facts.UID, facts.ResourceVersion)
	default:
		return fmt.Errorf("verdict %q of %s %s/%s is not known: this is a bug", verdict.Action, f.kind.Profile.Name, facts.Namespace, facts.Name)
	}
	return nil
}

func (f *trigger) object(facts *policy.Facts, verdict policy.Verdict) engine.Object {
	return engine.Object{
		Kind: f.handle, Namespace: facts.Namespace, Name: facts.Name, UID: facts.UID, ResourceVersion: facts.ResourceVersion,
		Expiry: verdict.Expiry, Phase: phase(verdict.Trigger), Source: verdict.Source.String(),
		// A runtime can set a TTL at any time, so read it again even if another source decided.
		Live: verdict.Live || f.kind.Runtime != nil || f.asksOwner(facts), Backfill: verdict.Backfill, DryRun: verdict.DryRun,
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
func (f *Feed) Judge(ctx context.Context, tracked engine.Object) (engine.Judgement, error) {
	return f.triggers[0].judgeLive(ctx, tracked)
}

// judgeLive reads one object and its context live and judges its current state. The engine calls it
// after a conflict, and if something outside of the object decides (S1).
func (f *trigger) judgeLive(ctx context.Context, tracked engine.Object) (engine.Judgement, error) {
	object, err := f.read(ctx, tracked.Namespace, tracked.Name)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return engine.Judgement{Verdict: engine.Gone}, nil
	case err != nil: // The kind may not be served at the moment, which says nothing of the object (S3).
		return engine.Judgement{}, fmt.Errorf("reading %s %s/%s afresh: %w", f.kind.Profile.Name, tracked.Namespace, tracked.Name, err)
	}
	facts, err := f.kind.Facts(ctx, object)
	if err != nil {
		return engine.Judgement{}, err
	}
	switch {
	case facts.Deleting && facts.UID != tracked.UID:
		return engine.Judgement{Verdict: engine.Gone}, nil // The watch reports the new object of that name (S2).
	case facts.Deleting:
		return engine.Judgement{Verdict: engine.BeingDeleted, Since: facts.DeletingSince}, nil
	}
	around, err := f.context(ctx, facts, object, true)
	if err != nil {
		return engine.Judgement{}, err
	}
	if f.kind.rules != nil && !f.kind.rules.Same(around.Platform.Compiled(f.kind.Profile.Kind.GroupKind())) {
		return engine.Judgement{}, errProfileChanged
	}
	verdict, payload, err := f.verdict(facts, around, object)
	if err == nil {
		verdict, err = f.inherited(ctx, facts, verdict)
	}
	if err != nil {
		return engine.Judgement{}, err
	}
	f.report(facts, verdict)
	switch verdict.Action {
	case policy.Wait, policy.Delete, policy.Stop:
		// The answer carries the UID of a re-created object, so that the engine does not treat it
		// as the old one (S2).
		due := f.object(facts, verdict)
		due.Payload = payload
		if f.kind.Label != "" {
			// The profile may have changed since this feed was made.
			said, err := around.Platform.Propagation(f.Kind())
			if err != nil {
				return engine.Judgement{}, err
			}
			due.Propagation = cmp.Or(verdict.Propagation, said, f.options.Propagation, metav1.DeletePropagationBackground)
		}
		found, err := meta.Accessor(object)
		if err != nil {
			return engine.Judgement{}, fmt.Errorf("metadata of %s %s/%s: %w", f.kind.Profile.Name, facts.Namespace, facts.Name, err)
		}
		return engine.Judgement{Verdict: engine.Track, Object: due, Finalizers: found.GetFinalizers()}, nil
	}
	if facts.UID != tracked.UID {
		return engine.Judgement{Verdict: engine.Gone}, nil
	}
	return engine.Judgement{Verdict: engine.Keep}, nil
}

// context gathers the context of an object: from caches to find out when it may be due, live right
// before it is deleted.
func (f *Feed) context(ctx context.Context, facts *policy.Facts, object runtime.Object, live bool) (*platform.Context, error) {
	from := f.options.Cached
	if live {
		from = f.options.Live
	}
	of := &platform.Object{Facts: facts, Runtime: f.kind.Runtime, JSON: func() (map[string]any, error) {
		content, err := f.kind.JSON(object)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", f.kind.Profile.Name, name(facts.Namespace, facts.Name), err)
		}
		return content, nil
	}}
	if of.LabelOnly = f.kind.Label != ""; of.LabelOnly {
		_, whole := object.(*unstructured.Unstructured)
		of.MetadataOnly = !whole
	} else {
		from = &tolerant{Source: from, feed: f, facts: facts, live: live}
	}
	found, err := platform.ContextOf(ctx, from, of)
	switch {
	case err != nil:
		return nil, err
	case found.Undecided && live:
		return nil, errPoliciesChanged
	}
	if len(found.Failures) > 0 && f.options.Failed != nil {
		f.options.Failed(facts.Profile.Kind.Kind+" "+name(facts.Namespace, facts.Name), found.Failures)
	}
	if said := found.Runtime; said != nil && said.Err != nil && said.Name == "" {
		f.log.V(1).Info("kept: its runtime cannot be told", "object", name(facts.Namespace, facts.Name), "reason", said.Err.Error())
	}
	found.AnnotationsOnly, found.LeaveNative = f.options.AnnotationsOnly, f.options.LeaveNative
	found.Protected = judging.Protects(f.options.Protect, facts.Namespace)
	return found, nil
}

var (
	// errPoliciesChanged lasts until the cache has the new policy, which decides how much of an
	// object is read.
	errPoliciesChanged = fmt.Errorf("a LifecyclePolicy has changed: %w", engine.ErrRulesChanged)
	// errProfileChanged lasts until a feed with the new profile has replaced this one.
	errProfileChanged = fmt.Errorf("its KindProfile has changed: %w", engine.ErrRulesChanged)
)

// tolerant keeps objects whose runtime cannot be read. An error would end the whole list or watch
// because of one object, so that the feed would never know all objects of the kind (S3). The feed
// judges the kept objects again after unreadFor.
type tolerant struct {
	platform.Source
	feed     *Feed
	facts    *policy.Facts
	live     bool
	snapshot *platform.Snapshot
}

// Snapshot implements [platform.Source].
func (t *tolerant) Snapshot(ctx context.Context) (_ *platform.Snapshot, err error) {
	t.snapshot, err = t.Source.Snapshot(ctx)
	return t.snapshot, err
}

// Runtime implements [platform.Source].
func (t *tolerant) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	object, err := t.Source.Runtime(ctx, reference)
	if err == nil || t.needed() {
		return object, err
	}
	t.feed.log.V(1).Info("kept: its runtime cannot be read", "object", name(t.facts.Namespace, t.facts.Name), "runtime", reference.String(), "reason", err.Error())
	t.feed.unread.Store(true)
	return nil, &platform.UnreadableError{Err: err}
}

// PodCounter implements [platform.Source]. A Pod is kept while its counter may not be read.
func (t *tolerant) PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	counter, err := t.Source.PodCounter(ctx, pod)
	if err != nil && unreadable(err) {
		return resolution.UnreadableCounter(pod, err), nil
	}
	return counter, err
}

// needed reports whether the runtime decides if an object is deleted or stopped now. It does not if
// the object runs with its own deadline, or has failed because of a deadline: an unreadable runtime
// never disables a deadline. No TTL deletes a running object, and the failed object is kept until
// its runtime can be read.
func (t *tolerant) needed() bool {
	own := !t.facts.Finished && t.facts.Deadline() != nil || !t.facts.Exceeded.IsZero()
	return t.live && (!own || slices.ContainsFunc(t.snapshot.Concerning(t.facts.Profile.Kind.GroupKind()), (*expression.Policy).MatchAsksRuntime))
}

// unreadFor is how long until objects whose runtime could not be read are judged again.
const unreadFor = time.Minute

// lookAgain judges the kind again while runtimes cannot be read.
func (f *Feed) lookAgain(ctx context.Context) {
	for loop.Pause(ctx, f.options.Clock, unreadFor) {
		if f.unread.Swap(false) {
			f.RejudgeAll()
		}
	}
}

// read reads an object live: whole, if a policy has to see more than metadata.
func (f *Feed) read(ctx context.Context, namespace, name string) (runtime.Object, error) {
	if f.kind.Whole == nil {
		return f.kind.Get(ctx, namespace, name)
	}
	snapshot, err := f.options.Cached.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if expression.NeedsWhole(snapshot.Concerning(f.Kind())) {
		return f.kind.Whole(ctx, namespace, name)
	}
	return f.kind.Get(ctx, namespace, name)
}

// OwnerReader reads the controller owners of objects.
type OwnerReader interface {
	// Read asks the API server. Nil without an error means that the owner is gone, or that another
	// object has its name.
	Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error)
	// Existing leaves out StatefulSets that are known by name alone and do not exist. One list
	// serves all callers for a namespace.
	Existing(ctx context.Context, namespace string, owners []*metav1.OwnerReference) ([]*metav1.OwnerReference, error)
}

// fewOwners is how many owners are read one by one. The name of a claim may have many dashes, and
// fit as many StatefulSets.
const fewOwners = 4

// asksOwner reports whether the owner must be read before an object is deleted or stopped.
func (f *trigger) asksOwner(facts *policy.Facts) bool {
	return f.options.Owners != nil && len(facts.TemplateOwners(f.Keys...)) > 0
}

// inherited replaces the verdict on a due object if its value comes from its owner's template or
// its owner cannot be read. It reads the owner live, and only if the object is due.
func (f *trigger) inherited(ctx context.Context, facts *policy.Facts, verdict policy.Verdict) (policy.Verdict, error) {
	if verdict.Action != policy.Delete && verdict.Action != policy.Stop || !f.asksOwner(facts) {
		return verdict, nil
	}
	owners := facts.TemplateOwners(f.Keys...)
	if len(owners) > fewOwners {
		var err error
		if owners, err = f.options.Owners.Existing(ctx, facts.Namespace, owners); err != nil {
			return verdict, err
		}
	}
	for _, owner := range owners {
		read, err := f.options.Owners.Read(ctx, facts.Namespace, owner)
		switch {
		case err != nil && unreadable(err):
			return facts.OwnerUnreadable(owner, err), nil
		case err != nil:
			return verdict, fmt.Errorf("reading the owner of %s %s: %w", f.kind.Profile.Name, name(facts.Namespace, facts.Name), err)
		}
		if kept, ok := facts.Inherited(owner, read, f.Keys...); ok {
			return kept, nil
		}
	}
	return verdict, nil
}

// unreadable reports whether an error will not pass by itself: a missing permission, an unknown
// kind.
func unreadable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsUnauthorized(err)
	}
	return meta.IsNoMatchError(err)
}
