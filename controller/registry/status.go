package registry

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Patcher writes the status of a kind; a resource of a dynamic client is one.
type Patcher interface {
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// statuses writes the status of one kind, for the leader alone. A state that is newer takes the place of one that waits.
type statuses struct {
	patcher Patcher
	clock   clock.Clock
	log     logr.Logger
	wake    chan struct{}

	mu      sync.Mutex
	pending map[string][]byte
}

func newStatuses(patcher Patcher, clock clock.Clock, log logr.Logger) *statuses {
	return &statuses{patcher: patcher, clock: clock, log: log, wake: make(chan struct{}, 1), pending: map[string][]byte{}}
}

// ready is the patch of a status, or nil where there is nothing to write. since is "" for kinds that have none.
func (s *statuses) ready(object *metav1.ObjectMeta, observed int64, conditions v1alpha1.Conditions, errs field.ErrorList, old, since string) []byte {
	new := slices.Clone([]metav1.Condition(conditions))
	condition := expression.Ready(object.Generation, errs, nil)
	condition.LastTransitionTime = metav1.NewTime(s.clock.Now())
	if changed := meta.SetStatusCondition(&new, condition); !changed && observed == object.Generation && old == since {
		return nil
	}
	status := map[string]any{"observedGeneration": object.Generation, "conditions": new}
	if since != "" {
		status["defaultSince"] = since
	} else if old != "" {
		status["defaultSince"] = nil // A merge patch removes by null.
	}
	patch, err := json.Marshal(map[string]any{
		// The UID and the resourceVersion of the state that was read: no other object and no newer spec gets its word.
		"metadata": map[string]any{"uid": object.UID, "resourceVersion": object.ResourceVersion}, "status": status,
	})
	if err != nil {
		s.log.Error(err, "a status cannot be written: this is a bug", "object", object.Name)
		return nil
	}
	return patch
}

func (s *statuses) add(name string, patch []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if patch == nil {
		delete(s.pending, name)
		return
	}
	s.pending[name] = patch
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run writes until ctx is done.
func (s *statuses) run(ctx context.Context) {
	delay := newDelay()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		batch := s.pending
		s.pending = map[string][]byte{}
		s.mu.Unlock()
		failed := false
		for name, patch := range batch {
			_, err := s.patcher.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || ctx.Err() != nil {
				continue // A newer state is on its way through the watch.
			}
			failed = true
			s.log.Info("could not write a status, trying again", "object", name, "reason", err.Error())
			s.mu.Lock()
			if s.pending[name] == nil {
				s.pending[name] = patch
			}
			s.mu.Unlock()
		}
		if !failed {
			delay = newDelay()
			continue
		}
		timer := s.clock.NewTimer(delay.Step())
		select {
		case <-ctx.Done():
		case <-timer.C():
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
		timer.Stop()
	}
}

// WriteStatus has the status of policies written: Ready, and since when the defaults hold. Call it before Run.
func (p *Policies) WriteStatus(patcher Patcher, clock clock.Clock) {
	p.status = newStatuses(patcher, clock, p.log)
	p.mirror.OnChange(func(name string, _, new *compiledPolicy) {
		if new == nil {
			p.status.add(name, nil)
			return
		}
		status := &new.object.Status
		p.status.add(name, p.status.ready(&new.object.ObjectMeta, status.ObservedGeneration, status.Conditions, new.errs,
			status.DefaultSince, expression.StampPolicy(new.object, clock.Now())))
	})
}

// WriteStatus has the status of KindProfiles written. Call it before Run.
func (r *Registry) WriteStatus(patcher Patcher) {
	r.status = newStatuses(patcher, r.options.Clock, r.log)
	r.profiles.OnChange(func(name string, _, new *compiledProfile) {
		if new == nil {
			r.status.add(name, nil)
			return
		}
		status := &new.object.Status
		r.status.add(name, r.status.ready(&new.object.ObjectMeta, status.ObservedGeneration, status.Conditions, new.errs, "", ""))
	})
}
