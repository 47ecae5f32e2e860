package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	// serverTime is the API server's, by which a status is stamped: a local clock that is behind would have defaults reach objects
	// that are older than they are (S6).
	serverTime ServerTime
	log        logr.Logger
	wake       chan struct{}

	mu      sync.Mutex
	pending map[string]makePatch
}

// ServerTime answers with the API server's time. An error means that it is not known, and that nothing is stamped. Nil means the
// local clock's.
type ServerTime func(context.Context) (time.Time, error)

// makePatch makes the patch of a status at an instant; nil means that there is nothing to write.
type makePatch func(now time.Time) []byte

func newStatuses(patcher Patcher, clock clock.Clock, serverTime ServerTime, log logr.Logger) *statuses {
	if serverTime == nil {
		serverTime = func(context.Context) (time.Time, error) { return clock.Now(), nil }
	}
	return &statuses{patcher: patcher, clock: clock, serverTime: serverTime, log: log, wake: make(chan struct{}, 1), pending: map[string]makePatch{}}
}

// patch is that of a status with these conditions, or nil where there is nothing to write. since is "" for kinds that have none.
func (s *statuses) patch(now time.Time, object *metav1.ObjectMeta, observed int64, conditions v1alpha1.Conditions, set []metav1.Condition, old, since string) []byte {
	new := slices.Clone([]metav1.Condition(conditions))
	changed := false
	for _, condition := range set {
		condition.LastTransitionTime = metav1.NewTime(now)
		changed = meta.SetStatusCondition(&new, condition) || changed
	}
	if !changed && observed == object.Generation && old == since {
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

func (s *statuses) add(name string, patch makePatch) {
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
		s.pending = map[string]makePatch{}
		s.mu.Unlock()
		failed := false
		for name, patch := range batch {
			err := s.write(ctx, name, patch)
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

func (s *statuses) write(ctx context.Context, name string, patch makePatch) error {
	now, err := s.serverTime(ctx)
	if err != nil {
		return err
	}
	data := patch(now)
	if data == nil {
		return nil
	}
	_, err = s.patcher.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// WriteStatus has the status of policies written: Ready, and since when the defaults hold. Call it before Run.
func (p *Policies) WriteStatus(patcher Patcher, clock clock.Clock, serverTime ServerTime) {
	p.status = newStatuses(patcher, clock, serverTime, p.log)
	p.mirror.OnChange(func(name string, old, new *compiledPolicy) {
		if new == nil || old != nil && old.object.UID != new.object.UID {
			p.failures.forget(name)
			p.pauses.forget(name)
		}
		p.writeStatus(name, new)
	})
}

// writeStatus has the status of one policy written; nil is one that is gone.
func (p *Policies) writeStatus(name string, of *compiledPolicy) {
	if of == nil {
		p.status.add(name, nil)
		return
	}
	status := &of.object.Status
	conditions := []metav1.Condition{expression.Ready(of.object.Generation, of.errs, p.failures.of(name, of.object.Generation))}
	if paused, ok := p.pauses.of(name); ok {
		paused.ObservedGeneration = of.object.Generation
		conditions = append(conditions, paused)
	}
	p.status.add(name, func(now time.Time) []byte {
		return p.status.patch(now, &of.object.ObjectMeta, status.ObservedGeneration, status.Conditions, conditions,
			status.DefaultSince, expression.StampPolicy(of.object, now))
	})
}

// WriteStatus has the status of KindProfiles written. Call it before Run.
func (r *Registry) WriteStatus(patcher Patcher) {
	r.status = newStatuses(patcher, r.options.Clock, r.options.ServerTime, r.log)
	r.profiles.OnChange(func(name string, _, new *compiledProfile) {
		if new == nil {
			r.status.add(name, nil)
		}
	})
}

// writeStatuses has the status of all KindProfiles written, each of which depends on what is served as well.
func (r *Registry) writeStatuses() {
	if r.status == nil {
		return
	}
	definitions, _, err := r.known()
	if err != nil {
		return // What makes it known says so.
	}
	own, err := r.profiles.All()
	if err != nil {
		return
	}
	for name, profile := range own {
		condition := expression.Ready(profile.object.Generation, profile.errs, nil)
		if reason := r.notServed(definitions, &profile); reason != "" && len(profile.errs) == 0 {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonKindNotServed, reason
		} else if reason := unenforced(definitions, &profile); reason != "" && len(profile.errs) == 0 {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonNoStatusSubresource, reason
		}
		status := &profile.object.Status
		r.status.add(name, func(now time.Time) []byte {
			return r.status.patch(now, &profile.object.ObjectMeta, status.ObservedGeneration, status.Conditions,
				[]metav1.Condition{condition}, "", "")
		})
	}
}

// notServed says why the kind of a profile is not there, or returns "". Kinds of Kubernetes itself have no
// CustomResourceDefinition, and are there.
func (r *Registry) notServed(definitions map[string]expression.Definition, profile *compiledProfile) string {
	kind := profile.Kind
	if group := kind.Group; !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") {
		return ""
	}
	for _, definition := range definitions {
		if definition.Kind != kind.GroupKind() {
			continue
		}
		if _, ok := definition.Serves(profile.Profile); ok {
			return ""
		}
		return fmt.Sprintf("spec.kind: %s is served, and not as resource %s of version %s in scope %s: correct these",
			kind.GroupKind(), profile.Resource, kind.Version, cmp.Or(profile.object.Spec.Kind.Scope, v1alpha1.ScopeNamespaced))
	}
	return fmt.Sprintf("spec.kind: no CustomResourceDefinition serves %s: install it, or correct group and kind", kind.GroupKind())
}

// unenforced says why Curfew enforces no deadline by a profile that says how, or returns "".
func unenforced(definitions map[string]expression.Definition, profile *compiledProfile) string {
	of := byDefinition(definitions)
	if definition := of(profile.Kind.GroupKind()); definition != nil {
		if fields, ok := definition.Serves(profile.Profile); ok {
			return profile.Installed(fields, of).Unenforced
		}
	}
	return ""
}
