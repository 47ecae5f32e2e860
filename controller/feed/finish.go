package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// recorder writes curfew.dev/finished-at on Pods that are finished and do not say since when, so
// that a restart does not begin their TTL again (contract, section 4).
type recorder struct {
	feed    *Feed
	pending *loop.RetryQueue // UIDs
	mu      sync.Mutex
	of      map[string]finish // by UID
	list    int               // counts the lists of the kind
}

type finish struct {
	namespace, name string
	uid             types.UID
	resourceVersion string
	created         time.Time
	seen            time.Time // by the local clock
	dry             bool      // nothing is written
	list            int       // in which it was last seen, or since
}

// recordFinish makes the recorder write down an unknown finish time. In a dry run nothing is
// written: the TTL counts from when the object was first seen finished.
func (f *trigger) recordFinish(state *State, verdict policy.Verdict) (policy.Verdict, any, error) {
	facts := state.Facts
	verdict.DryRun = verdict.DryRun || f.options.Engine.DryRun()
	first := f.finishes.add(finish{
		namespace: facts.Namespace, name: facts.Name, uid: facts.UID, resourceVersion: facts.ResourceVersion, created: facts.Created,
		seen: state.Now, dry: verdict.DryRun,
	})
	if !verdict.DryRun {
		return verdict, nil, nil
	}
	seen := *facts
	seen.FinishTime = roundUp(later(first, facts.Created))
	again := *state
	again.Facts = &seen
	verdict, payload, err := f.Trigger.Judge(&again)
	verdict.DryRun = true
	return verdict, payload, err
}

// add records and returns when an object was first seen finished. It keeps the newest state, since
// only that can be patched: an object that is judged again because its context has changed may have
// been listed before the watch reported a newer state.
func (r *recorder) add(new finish) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(new.uid)
	old, known := r.of[key]
	if known {
		new.seen = old.seen
		if old.after(new.resourceVersion) {
			new.resourceVersion = old.resourceVersion
		}
	}
	new.list = r.list
	r.of[key] = new
	if !new.dry && !(new.resourceVersion == old.resourceVersion && r.pending.Delayed(key)) {
		r.pending.Add(key)
	}
	return new.seen
}

// begin and end enclose a list of the whole kind. Objects that the list does not show are gone,
// even if no watch reported that.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list++
}

func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, finish := range r.of {
		if finish.list < r.list {
			delete(r.of, key)
			r.pending.Remove(key)
		}
	}
}

// after reports whether the state that is to be patched is newer than another.
func (f *finish) after(resourceVersion string) bool {
	order, err := resourceversion.CompareResourceVersion(f.resourceVersion, resourceVersion)
	return err == nil && order > 0
}

// forget drops the finish time of an object that is gone.
func (r *recorder) forget(uid types.UID) { r.forgetBy(uid, "") }

// forgetBy drops it because nothing has to be written in a state, unless a newer state is to be
// patched.
func (r *recorder) forgetBy(uid types.UID, resourceVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if finish, ok := r.of[string(uid)]; ok && !finish.after(resourceVersion) {
		delete(r.of, string(uid))
		r.pending.Remove(string(uid))
	}
}

// moved notes that the object has left the state that was to be patched. Nothing is written until
// the next state comes, even if that has an older version (etcd restored).
func (r *recorder) moved(key, resourceVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if finish, ok := r.of[key]; ok && finish.resourceVersion == resourceVersion {
		finish.resourceVersion = ""
		r.of[key] = finish
	}
}

func (r *recorder) run(ctx context.Context) {
	r.pending.Work(ctx, func(ctx context.Context, key string) time.Duration {
		r.mu.Lock()
		finish, known := r.of[key]
		r.mu.Unlock()
		if !known || finish.dry || finish.resourceVersion == "" {
			return 0
		}
		switch err := r.write(ctx, finish); {
		case err == nil, apierrors.IsNotFound(err):
			r.forget(finish.uid)
		case apierrors.IsConflict(err):
			// The object moved: its next event brings it back, with the instant that is kept here.
			r.moved(key, finish.resourceVersion)
		case ctx.Err() == nil:
			r.feed.log.V(1).Info("could not write down a finish time, trying again", "namespace", finish.namespace, "name", finish.name,
				"reason", err.Error())
			if reports := r.feed.options.Reports; reports != nil && !errors.Is(err, errTime) {
				reports.kept(r.feed.reference(finish.namespace, finish.name, finish.uid),
					"its finish time cannot be written down, so that its TTL does not begin", errNotWritten, "")
			}
			return retryFirst
		}
		return 0
	})
}

const (
	// retryFirst and maxRetry bound the wait after a failure, which doubles with each failure.
	retryFirst = time.Second
	maxRetry   = 5 * time.Minute
)

// write stamps by the API server's time: a stamp by a clock that is behind would shorten the life
// of the object for good (S6).
func (r *recorder) write(ctx context.Context, job finish) error {
	if r.feed.kind.Patch == nil {
		return nil
	}
	now, err := r.feed.options.ServerTime(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errTime, err)
	}
	t := later(now.Add(-max(0, r.feed.options.Clock.Since(job.seen))), job.created)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		// The UID keeps a re-created object from getting the old one's finish time (S2).
		"uid":             job.uid,
		"resourceVersion": job.resourceVersion,
		"annotations":     map[string]string{wellknown.AnnotationFinishedAt: roundUp(t).Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	return r.feed.kind.Patch(ctx, job.namespace, job.name, types.MergePatchType, patch)
}

var (
	errTime = errors.New("the API server's time")
	// errNotWritten is shown to users. The controller's log has the API server's answer.
	errNotWritten = errors.New("the API server refused annotation " + wellknown.AnnotationFinishedAt)
)

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// roundUp rounds up to the whole seconds that the annotation holds: rounding down would shorten the
// object's life (S6).
func roundUp(t time.Time) time.Time {
	return t.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second)
}
