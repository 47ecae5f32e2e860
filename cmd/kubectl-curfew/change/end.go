package change

import (
	"errors"
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
)

// soon leaves time for the request: a label that is in the past when admission sees it is warned about, or refused.
const soon = 2 * time.Second

// ExpireNow has Curfew delete an object at once, by its TTL label: with preconditions, and only if nothing stops it. obstacles are what
// stands in its way.
func ExpireNow(s *Subject, obstacles []policy.Obstacle) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	var warnings []string
	for _, obstacle := range obstacles {
		switch {
		case obstacle.Kind == policy.ObstacleValue:
			// The label that is put there decides.
		case obstacle.Stops:
			return nil, errors.New("would stay: " + obstacle.Message)
		default:
			warnings = append(warnings, obstacle.Message)
		}
	}
	facts := s.facts()
	switch {
	case facts.IsNamespace():
		warnings = append(warnings, "all that lies in the namespace goes with it")
	case facts.Profile.Finishable() && !facts.Finished:
		warnings = append(warnings, "has not finished: it is deleted while it is at work")
	}
	now := policy.TTLLabel{At: roundUp(s.Now.Add(soon))}
	patch := map[string]any{}
	set(patch, label(policy.LabelTTL), now.String())
	return s.try(patch, warnings...)
}

// Cancel lets an object stay: its TTL label is taken off, and its TTL after finished becomes never.
func Cancel(s *Subject) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	e, patch := s.Explained, map[string]any{}
	for _, key := range []string{policy.LabelTTL, policy.LabelKyvernoTTL} {
		if _, ok := e.Facts.Labels[key]; ok && (key == policy.LabelTTL || s.Alias) {
			set(patch, label(key), nil)
		}
	}
	var warnings []string
	if s.hasTTL() {
		if runtime := e.Scope.Runtime; runtime != nil && e.Facts.ForeignManager() == "" && !runtime.TTL.Empty() {
			set(patch, annotation(policy.AnnotationProtect), "true")
			warnings = append(warnings, fmt.Sprintf("its runtime %q decides, whatever it says itself: it is protected instead", runtime.Name))
		} else if err := s.never(patch); err != nil {
			return nil, err
		}
	}
	if len(patch) == 0 {
		return nil, nothing("stays as it is: nothing to cancel")
	}
	return s.try(patch, warnings...)
}

func (s *Subject) hasTTL() bool {
	e := s.Explained
	if !e.Facts.Profile.Finishable() {
		return false
	}
	outcomes := []policy.Outcome{policy.Succeeded, policy.Failed}
	if e.Facts.Finished {
		outcomes = []policy.Outcome{e.Facts.Outcome}
	}
	for _, outcome := range outcomes {
		if value := e.Effective.TTL(outcome); value.Set && !value.TTL.Never {
			return true
		}
	}
	return false
}

// never writes the annotation, and takes away what would speak beside it.
func (s *Subject) never(patch map[string]any) error {
	e := s.Explained
	if err := e.Scope.EnforcedFor(e.Facts).CheckTTL(policy.TTL{Never: true}); err != nil {
		return fmt.Errorf("cannot be kept for good: %w; use extend", err)
	}
	own := e.Facts.TTLs()
	for _, native := range own.Natives() {
		path, err := policy.ParseFieldPath(native.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", native.Path, err)
		}
		set(patch, path, nil)
	}
	for _, key := range []string{policy.AnnotationTTLSucceeded, policy.AnnotationTTLFailed} {
		if _, ok := e.Facts.Annotations[key]; ok {
			set(patch, annotation(key), nil)
		}
	}
	set(patch, annotation(policy.AnnotationTTL), "never")
	return nil
}
