package change

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// soon leaves time for the request: admission denies a label that is expired.
const soon = 2 * time.Second

// ExpireNow has Curfew delete an object at once, by a TTL label: with preconditions, and only if no
// obstacle stops it.
func ExpireNow(s *Subject, obstacles []judging.Obstacle) (*Plan, error) {
	if s.facts().Deleting {
		return nil, Nothing("is being deleted")
	}
	var warnings []string
	for _, obstacle := range obstacles {
		switch {
		case obstacle.Kind == judging.ObstacleValue:
			// The new label decides.
		case obstacle.Stops:
			return nil, errors.New("would stay: " + obstacle.Message)
		default:
			warnings = append(warnings, obstacle.Message)
		}
	}
	facts := s.facts()
	if due := s.Explained.ByLabel; due.Action == policy.Delete {
		return nil, Nothing("expired at %s", s.at(due.Expiry))
	}
	switch {
	case facts.IsNamespace():
		warnings = append(warnings, "everything in the namespace is deleted with it")
	case facts.Profile.Finishable() && !facts.Finished:
		warnings = append(warnings, "has not finished: it is deleted while it runs")
	}
	now := lifetime.TTLLabel{At: roundUp(s.Now.Add(soon))}
	patch := map[string]any{}
	set(patch, label(wellknown.LabelTTL), now.String())
	return s.try(patch, warnings...)
}

// Keep lets an object stay: it removes the TTL label, sets the TTL after finished to never, and
// protects the object from a cleanup policy.
func Keep(s *Subject) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	e, patch := s.Explained, map[string]any{}
	for _, key := range []string{wellknown.LabelTTL, wellknown.LabelKyvernoTTL} {
		if _, ok := e.Facts.Labels[key]; ok && (key == wellknown.LabelTTL || s.Alias) {
			set(patch, label(key), nil)
			// Without a stamp it would look like an object that never had a label, and get a
			// default.
			if _, stamped := e.Facts.Annotations[wellknown.AnnotationLabelSource]; !stamped {
				set(patch, annotation(wellknown.AnnotationLabelSource), string(lifetime.LevelObject))
			}
		}
	}
	var warnings []string
	if s.hasTTL() {
		if runtime := e.Scope.Runtime; runtime != nil && e.Facts.ForeignManager() == "" && !runtime.TTL.Empty() {
			set(patch, annotation(wellknown.AnnotationProtect), "true")
			warnings = append(warnings, fmt.Sprintf("its runtime %q decides its TTL, so the object is protected instead", runtime.Name))
		} else if err := s.never(patch); err != nil {
			return nil, err
		}
	}
	if s.Cleaned != "" && !e.Facts.Protected() {
		set(patch, annotation(wellknown.AnnotationProtect), "true")
		warnings = append(warnings, fmt.Sprintf("the next run of %s may delete it, so the object is protected", s.Cleaned))
	}
	if others := s.others(); len(others) > 0 && !e.Facts.Protected() {
		set(patch, annotation(wellknown.AnnotationProtect), "true")
		warnings = append(warnings, fmt.Sprintf("trigger %s may delete it, so the object is protected", others[0].Trigger))
	}
	if len(patch) == 0 {
		return nil, Nothing("has no expiry")
	}
	return s.try(patch, warnings...)
}

// Protect plans to protect an object, from cleanup policies as well.
func Protect(s *Subject) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	patch := map[string]any{}
	set(patch, annotation(wellknown.AnnotationProtect), "true")
	return s.try(patch)
}

func (s *Subject) hasTTL() bool {
	e := s.Explained
	return e.Facts.Profile.Finishable() && slices.ContainsFunc(s.outcomes(), func(outcome lifetime.Outcome) bool {
		value := e.Effective.TTL(outcome)
		return value.Set && !value.TTL.Never
	})
}

// never sets the annotation to never, and removes the fields and annotations that would override
// it.
func (s *Subject) never(patch map[string]any) error {
	e := s.Explained
	if err := e.Scope.BoundsFor(e.Facts, resolution.EnforcedBounds).CheckTTL(lifetime.TTL{Never: true}); err != nil {
		return fmt.Errorf("cannot be kept for good: %w; use extend", err)
	}
	own := e.Facts.TTLs()
	for _, native := range own.Natives() {
		path, err := fieldpath.ParseFieldPath(native.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", native.Path, err)
		}
		set(patch, path, nil)
	}
	for _, key := range []string{wellknown.AnnotationTTLSucceeded, wellknown.AnnotationTTLFailed} {
		if _, ok := e.Facts.Annotations[key]; ok {
			set(patch, annotation(key), nil)
		}
	}
	set(patch, annotation(wellknown.AnnotationTTL), "never")
	return nil
}
