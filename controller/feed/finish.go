package feed

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

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
	f.finishes.add(finish{
		namespace: facts.Namespace, name: facts.Name, uid: facts.UID, resourceVersion: facts.ResourceVersion, at: f.options.Clock.Now(),
	})
}

// add keeps the first instant at which an object was seen finished, and the newest state that can be patched.
func (r *recorder) add(new finish) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(new.uid)
	if old, ok := r.of[key]; ok {
		new.at = old.at
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

// forget drops what is to be written on an object that is gone.
func (r *recorder) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, string(uid))
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
		if !known {
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
		if err == nil || apierrors.IsNotFound(err) {
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
