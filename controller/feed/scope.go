package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

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
	found.Protected = policy.Protects(f.options.Protect, facts.Namespace)
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
func (t *tolerant) PodCounter(ctx context.Context, pod *policy.Facts) (*policy.PodCounter, error) {
	counter, err := t.Source.PodCounter(ctx, pod)
	if err != nil && unreadable(err) {
		return policy.UnreadableCounter(pod, err), nil
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
