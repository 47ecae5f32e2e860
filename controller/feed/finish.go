package feed

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"curfew.dev/curfew/policy"
)

// recorder writes curfew.dev/finished-at on objects that are finished and do not say since when, so that a restart does
// not begin their TTL anew (contract, section 4).
type recorder struct {
	feed    *Feed
	pending *pending
	mu      sync.Mutex
	of      map[string]finish
	// list counts the lists of the kind.
	list int
}

type finish struct {
	namespace, name string
	uid             types.UID
	resourceVersion string
	at              time.Time
	list            int // in which it was last seen, or since
}

func newRecorder(feed *Feed) *recorder {
	return &recorder{feed: feed, pending: newPending(), of: map[string]finish{}}
}

// recordFinish has the finish time written down. In dry-run nothing is changed: there the object is finished since whenever that ends.
func (f *Feed) recordFinish(facts *policy.Facts, verdict policy.Verdict) {
	if verdict.DryRun {
		return
	}
	least := facts.Created
	at := f.options.Clock.Now()
	if at.Before(least) {
		at = least // A clock that is behind the API server's would write what does not count.
	}
	f.finishes.add(finish{namespace: facts.Namespace, name: facts.Name, uid: facts.UID, resourceVersion: facts.ResourceVersion, at: at}, least)
}

// add keeps the first instant at which an object was seen finished, unless that is too early to count by now, and the newest state, which can
// be patched: what is judged again because its surroundings have changed may have been listed before the watch told of a newer one.
func (r *recorder) add(new finish, least time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(new.uid)
	if old, ok := r.of[key]; ok {
		if !old.at.Before(least) {
			new.at = old.at
		}
		if old.after(new.resourceVersion) {
			new.resourceVersion = old.resourceVersion
		}
	}
	new.list = r.list
	r.of[key] = new
	r.pending.add(key)
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
	delay := newDelay()
	for {
		key, ok := r.pending.next(ctx)
		if !ok {
			return
		}
		r.mu.Lock()
		job, known := r.of[key]
		r.mu.Unlock()
		if !known || job.resourceVersion == "" {
			continue
		}
		err := r.write(ctx, job)
		// A conflict means that the object moved: its next event brings it back, with the instant that is kept here.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			if ctx.Err() != nil {
				return
			}
			r.feed.log.Info("could not write down a finish time, trying again", "namespace", job.namespace, "name", job.name, "reason", err.Error())
			r.pending.add(key)
			r.feed.pause(ctx, delay.Step())
			continue
		}
		delay = newDelay()
		if apierrors.IsConflict(err) {
			r.moved(key, job.resourceVersion)
		} else {
			r.mu.Lock()
			delete(r.of, key)
			r.mu.Unlock()
		}
	}
}

func (r *recorder) write(ctx context.Context, job finish) error {
	if r.feed.kind.Patch == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		// The UID keeps a re-created object from getting the old one's finish time (S2).
		"uid":             job.uid,
		"resourceVersion": job.resourceVersion,
		"annotations":     map[string]string{policy.AnnotationFinishedAt: roundUp(job.at).Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	return r.feed.kind.Patch(ctx, job.namespace, job.name, types.MergePatchType, patch)
}

// roundUp goes to the next whole second, which is all that the annotation holds: rounding down would shorten a life (S6).
func roundUp(at time.Time) time.Time {
	return at.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second)
}
