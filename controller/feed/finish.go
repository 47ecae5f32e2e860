package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
)

// recorder writes curfew.dev/finished-at on Pods that are finished and do not say since when, so that a restart does not begin
// their TTL again (contract, section 4).
type recorder struct {
	feed    *Feed
	pending *loop.Queue
	mu      sync.Mutex
	of      map[string]finish
	// retries says when what could not be written is tried again; the first of these is at retryAt, if there are any.
	retries map[string]time.Time
	retryAt time.Time
	// list counts the lists of the kind.
	list int
}

type finish struct {
	namespace, name string
	uid             types.UID
	resourceVersion string
	created         time.Time
	seen            time.Time // by the local clock
	dry             bool      // nothing is written
	list            int       // in which it was last seen, or since
	failures        int       // to write it
}

func newRecorder(feed *Feed) *recorder {
	return &recorder{feed: feed, pending: loop.NewQueue(), of: map[string]finish{}, retries: map[string]time.Time{}}
}

// recordFinish answers what a finish time that is not known means for an object. In dry-run nothing is written: the object is due as
// if it had been, counted from when it was first seen finished.
func (f *lane) recordFinish(facts *policy.Facts, effective *policy.Effective, verdict policy.Verdict, now time.Time) policy.Verdict {
	verdict.DryRun = verdict.DryRun || f.options.Engine.DryRun()
	first := f.finishes.add(finish{
		namespace: facts.Namespace, name: facts.Name, uid: facts.UID, resourceVersion: facts.ResourceVersion, created: facts.Created,
		seen: now, dry: verdict.DryRun,
	})
	if !verdict.DryRun {
		return verdict
	}
	seen := *facts
	seen.FinishTime = roundUp(later(first, facts.Created))
	verdict = policy.Judge(&seen, effective, now)
	verdict.DryRun = true
	return verdict
}

// add keeps the first instant at which an object was seen finished, and answers with it. Of its states it keeps the newest, which can be
// patched: what is judged again because its context has changed may have been listed before the watch told of a newer one.
func (r *recorder) add(new finish) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(new.uid)
	old, known := r.of[key]
	if known {
		new.seen, new.failures = old.seen, old.failures
		if old.after(new.resourceVersion) {
			new.resourceVersion = old.resourceVersion
		}
	}
	new.list = r.list
	r.of[key] = new
	_, waits := r.retries[key]
	if !new.dry && !(waits && new.resourceVersion == old.resourceVersion) {
		r.pending.Add(key)
	}
	return new.seen
}

// begin and end enclose a list of the whole kind. What it does not show is gone, though no watch has told.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list++
}

func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(_ string, one finish) bool { return one.list < r.list })
	maps.DeleteFunc(r.retries, func(key string, _ time.Time) bool { _, ok := r.of[key]; return !ok })
}

// after tells whether the state that is to be patched is newer than another.
func (one *finish) after(resourceVersion string) bool {
	order, err := resourceversion.CompareResourceVersion(one.resourceVersion, resourceVersion)
	return err == nil && order > 0
}

// forget drops what is to be written on an object that is gone.
func (r *recorder) forget(uid types.UID) { r.forgetBy(uid, "") }

// forgetBy drops it because of a state in which there is nothing to be written, unless that is an older one.
func (r *recorder) forgetBy(uid types.UID, resourceVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.of[string(uid)]; ok && !one.after(resourceVersion) {
		delete(r.of, string(uid))
		delete(r.retries, string(uid))
	}
}

// moved notes that the state that was to be patched is not that of the object. Nothing is written until the next comes, which is believed even
// if it is from before that one (etcd restored).
func (r *recorder) moved(key, resourceVersion string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.of[key]; ok && one.resourceVersion == resourceVersion {
		one.resourceVersion = ""
		r.of[key] = one
	}
}

func (r *recorder) run(ctx context.Context) {
	for {
		key, ok := r.next(ctx)
		if !ok {
			return
		}
		r.mu.Lock()
		one, known := r.of[key]
		r.mu.Unlock()
		if !known || one.dry || one.resourceVersion == "" {
			continue
		}
		switch err := r.write(ctx, one); {
		case err == nil, apierrors.IsNotFound(err):
			r.forget(one.uid)
		case apierrors.IsConflict(err):
			// The object moved: its next event brings it back, with the instant that is kept here.
			r.moved(key, one.resourceVersion)
		case ctx.Err() != nil:
			return
		default:
			r.feed.log.V(1).Info("could not write down a finish time, trying again", "namespace", one.namespace, "name", one.name, "reason", err.Error())
			if reports := r.feed.options.Reports; reports != nil && !errors.Is(err, errTime) {
				reports.kept(r.feed.reference(one.namespace, one.name, one.uid), "its finish time cannot be written down, so that its TTL does not begin",
					errNotWritten, "")
			}
			r.retry(key)
		}
	}
}

// next waits for an object whose finish time is to be written. One that could not be written waits by itself and delays no other.
func (r *recorder) next(ctx context.Context) (string, bool) {
	for {
		wait := r.requeue()
		if key, ok := r.pending.Pop(); ok {
			return key, true
		}
		if !r.pending.Wait(ctx, r.feed.options.Clock, wait) {
			return "", false
		}
	}
}

const (
	// retryFirst and retryMost bound the wait after a failure, which doubles with each.
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// retry has one written again after a while.
func (r *recorder) retry(key string) {
	now := r.feed.options.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.of[key]
	if !ok {
		return
	}
	at := now.Add(min(retryFirst<<min(one.failures, 16), retryMost))
	one.failures++
	r.of[key], r.retries[key] = one, at
	if r.retryAt.IsZero() || at.Before(r.retryAt) {
		r.retryAt = at
	}
}

// requeue takes up what has waited long enough, and answers how long to wait for more; 0 means that nothing waits.
func (r *recorder) requeue() time.Duration {
	now := r.feed.options.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retryAt.IsZero() {
		return 0
	}
	if wait := r.retryAt.Sub(now); wait > 0 && wait <= retryMost {
		return wait
	}
	r.retryAt = time.Time{}
	for key, at := range r.retries {
		switch wait := at.Sub(now); {
		case wait <= 0 || wait > retryMost: // The clock was set.
			delete(r.retries, key)
			r.pending.Add(key)
		case r.retryAt.IsZero() || at.Before(r.retryAt):
			r.retryAt = at
		}
	}
	if r.retryAt.IsZero() {
		return 0
	}
	return r.retryAt.Sub(now)
}

// write stamps by the API server's time: a stamp by a clock that is behind would shorten the life of the object for good (S6).
func (r *recorder) write(ctx context.Context, job finish) error {
	if r.feed.kind.Patch == nil {
		return nil
	}
	now, err := r.feed.options.ServerTime(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errTime, err)
	}
	at := later(now.Add(-max(0, r.feed.options.Clock.Since(job.seen))), job.created)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		// The UID keeps a re-created object from getting the old one's finish time (S2).
		"uid":             job.uid,
		"resourceVersion": job.resourceVersion,
		"annotations":     map[string]string{policy.AnnotationFinishedAt: roundUp(at).Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	return r.feed.kind.Patch(ctx, job.namespace, job.name, types.MergePatchType, patch)
}

var (
	errTime = errors.New("the API server's time")
	// errNotWritten is what users see; what the API server answered is in the controller's log.
	errNotWritten = errors.New("the API server refused annotation " + policy.AnnotationFinishedAt)
)

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// roundUp goes to the next whole second, which is all that the annotation holds: rounding down would shorten a life (S6).
func roundUp(at time.Time) time.Time {
	return at.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second)
}
