package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Patcher writes the status of a kind; a resource of a dynamic client is one.
type Patcher interface {
	Patch(
		ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
	) (*unstructured.Unstructured, error)
}

// Statuses writes the status of one kind, for the leader alone. A state that is newer takes the
// place of one that waits.
type Statuses struct {
	patcher Patcher
	// serverTime is the API server's, by which a status is stamped: a local clock that is behind would
	// have defaults reach objects that are older than they are (S6).
	serverTime ServerTime
	log        logr.Logger
	held       HeldEvent
	queue      *loop.RetryQueue

	mu      sync.Mutex
	pending map[string]MakePatch
}

// writeAgain and maxWrite bound how long a write that failed waits by itself: an object that can
// never be written delays no other.
const (
	writeAgain = 200 * time.Millisecond
	maxWrite   = 10 * time.Second
)

// ServerTime answers with the API server's time. An error means that it is not known, and that
// nothing is stamped. Nil means the local clock's.
type ServerTime func(context.Context) (time.Time, error)

// MakePatch makes the patch of a status at an instant; nil means that there is nothing to write.
type MakePatch func(now time.Time) []byte

// HeldEvent writes an Event on an object that is held because it needs a newer Curfew. It may be
// nil.
type HeldEvent func(object *unstructured.Unstructured, reason, message string)

// NewStatuses makes a writer through a patcher.
func NewStatuses(patcher Patcher, clock clock.Clock, serverTime ServerTime, held HeldEvent, log logr.Logger) *Statuses {
	if serverTime == nil {
		serverTime = func(context.Context) (time.Time, error) { return clock.Now(), nil }
	}
	queue := loop.NewRetryQueue(clock, maxWrite)
	return &Statuses{patcher: patcher, serverTime: serverTime, held: held, log: log, queue: queue, pending: map[string]MakePatch{}}
}

// Patch makes the patch of a status with these conditions, or nil where there is nothing to write.
// defaults are nil for kinds that have none.
func (s *Statuses) Patch(
	now time.Time, object *metav1.ObjectMeta, observed int64, conditions v1alpha1.Conditions, set []metav1.Condition,
	old, defaults *v1alpha1.DefaultsStatus,
) []byte {
	new := slices.Clone([]metav1.Condition(conditions))
	changed := false
	for _, condition := range set {
		condition.LastTransitionTime = metav1.NewTime(now)
		changed = meta.SetStatusCondition(&new, condition) || changed
	}
	if !changed && observed == object.Generation && equality.Semantic.DeepEqual(old, defaults) {
		return nil
	}
	status := map[string]any{"observedGeneration": object.Generation, "conditions": new}
	if defaults != nil {
		status["defaults"] = defaults
	} else if old != nil {
		status["defaults"] = nil // A merge patch removes by null.
	}
	patch, err := json.Marshal(map[string]any{
		// The UID and the resourceVersion of the state that was read: no other object and no newer spec
		// gets its word.
		"metadata": map[string]any{"uid": object.UID, "resourceVersion": object.ResourceVersion}, "status": status,
	})
	if err != nil {
		s.log.Error(err, "a status cannot be written: this is a bug", "object", object.Name)
		return nil
	}
	return patch
}

// maxConflicts is how many conflicts in a row end an Overwrite. They take three seconds.
const maxConflicts = 6

// Overwrite writes a status that this process alone decides, until the outcome is known (S7). After
// a conflict, reread reports whether an earlier write had succeeded and its answer was lost, and
// fails if another process has written the status. Anyone who may edit the object can do so all the
// time, and must not have Curfew write all the time. A 404 becomes gone.
func Overwrite(
	ctx context.Context, clock clock.Clock, gone error, write func(context.Context) error,
	reread func(context.Context) (written bool, err error),
) error {
	backoff := loop.NewBackoff()
	for conflicts := 1; ; conflicts++ {
		conflict := write(ctx)
		written, err := false, conflict
		if apierrors.IsConflict(conflict) {
			written, err = reread(ctx)
		}
		switch {
		case apierrors.IsNotFound(err):
			return gone
		case written || err != nil || conflict == nil:
			return err
		case conflicts == maxConflicts:
			return fmt.Errorf("it was edited %d times meanwhile: %w", conflicts, conflict)
		case conflicts > 1 && !loop.Pause(ctx, clock, backoff.Next()):
			return context.Cause(ctx)
		}
	}
}

// StatusPatch is a JSON Patch (RFC 6902) that replaces the status of an object in a certain state.
// In any other state it conflicts. Unlike an update, it sends no labels: up to Kubernetes 1.35 an
// update without them keeps the labels, but removes their owner from the managed fields.
func StatusPatch(uid types.UID, version string, status any) ([]byte, error) {
	add := func(path string, value any) map[string]any {
		return map[string]any{"op": "add", "path": path, "value": value}
	}
	return json.Marshal([]any{add("/metadata/uid", uid), add("/metadata/resourceVersion", version), add("/status", status)})
}

// Add has a status written; nil drops what waits.
func (s *Statuses) Add(name string, patch MakePatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if patch == nil {
		delete(s.pending, name)
		s.queue.Remove(name)
		return
	}
	s.pending[name] = patch
	s.queue.Add(name)
}

// Run writes until ctx is done.
func (s *Statuses) Run(ctx context.Context) {
	s.queue.Work(ctx, func(ctx context.Context, name string) time.Duration {
		s.mu.Lock()
		patch := s.pending[name]
		delete(s.pending, name)
		s.mu.Unlock()
		if patch == nil {
			return 0 // A newer state was written while an older one waited.
		}
		err := s.write(ctx, name, patch)
		if settled(err) || ctx.Err() != nil {
			return 0
		}
		s.log.Info("could not write a status, trying again", "object", name, "reason", err.Error())
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pending[name] == nil {
			s.pending[name] = patch
		}
		return writeAgain
	})
}

func (s *Statuses) write(ctx context.Context, name string, patch MakePatch) error {
	now, err := s.serverTime(ctx)
	if err != nil {
		return err
	}
	data := patch(now)
	if data == nil {
		return nil
	}
	written, err := s.patcher.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	if err == nil && s.held != nil {
		s.reportHeld(written)
	}
	return err
}

// reportHeld writes an Event if a status that was just written says that its object needs a newer
// Curfew. A status is written when it changes, so that this is seldom.
func (s *Statuses) reportHeld(written *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedFieldNoCopy(written.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] == v1alpha1.ConditionReady && condition["reason"] == v1alpha1.ReasonNeedsNewerVersion {
			message, _ := condition["message"].(string)
			s.held(written, v1alpha1.ReasonNeedsNewerVersion, quote.ShortenTo(message, 1000)) // Events have shorter messages.
		}
	}
}
