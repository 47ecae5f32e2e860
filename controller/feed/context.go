package feed

import (
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

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// context gathers the context of an object: from caches to find out when it may be due, live right
// before it is deleted.
func (f *Feed) context(ctx context.Context, facts *policy.Facts, object runtime.Object, live bool) (*platform.Context, error) {
	from := f.options.Cached
	if live {
		from = f.options.Live
	}
	subject := &platform.Subject{Facts: facts, Runtime: f.kind.Runtime, JSON: func() (map[string]any, error) {
		content, err := f.kind.JSON(object)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", f.kind.Profile.Name, name(facts.Namespace, facts.Name), err)
		}
		return content, nil
	}}
	if subject.LabelOnly = f.kind.Label != ""; subject.LabelOnly {
		_, whole := object.(*unstructured.Unstructured)
		subject.MetadataOnly = !whole
	} else {
		from = &tolerant{Source: from, feed: f, facts: facts, live: live}
	}
	found, err := platform.ContextOf(ctx, from, subject)
	switch {
	case err != nil:
		return nil, err
	case found.Undecided && live:
		return nil, errPoliciesChanged
	}
	if len(found.Failures) > 0 && f.options.Failed != nil {
		f.options.Failed(facts.Profile.Kind.Kind+" "+name(facts.Namespace, facts.Name), found.Failures)
	}
	if runtimePolicy := found.Runtime; runtimePolicy != nil && runtimePolicy.Err != nil && runtimePolicy.Name == "" {
		f.log.V(1).Info("kept: cannot determine its runtime", "object", name(facts.Namespace, facts.Name), "reason", runtimePolicy.Err.Error())
	}
	found.AnnotationsOnly, found.LeaveNative = f.options.AnnotationsOnly, f.options.LeaveNative
	found.Protected = judging.Protects(f.options.Protect, facts.Namespace)
	return found, nil
}

var (
	// errPoliciesChanged lasts until the cache has the new policy, which decides how much of an
	// object is read.
	errPoliciesChanged = fmt.Errorf("a LifecyclePolicy has changed: %w", expire.ErrRulesChanged)
	// errProfileChanged lasts until a feed with the new profile has replaced this one.
	errProfileChanged = fmt.Errorf("its KindProfile has changed: %w", expire.ErrRulesChanged)
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
	// One that is too large is judged again when it changes.
	if err == nil || t.needed() || apierrors.IsRequestEntityTooLargeError(err) {
		return object, err
	}
	t.feed.log.V(1).Info("kept: its runtime cannot be read", "object", name(t.facts.Namespace, t.facts.Name),
		"runtime", reference.String(), "reason", err.Error())
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
	policies := t.snapshot.Concerning(t.facts.Profile.Kind.GroupKind())
	return t.live && (!own || slices.ContainsFunc(policies, (*expression.Policy).MatchAsksRuntime))
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
