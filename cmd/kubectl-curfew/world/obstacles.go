package world

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// Obstacles are what stands in the way of an object: what policy finds, what the controller may not do, and, where thorough is set,
// what its Events say.
func (w *World) Obstacles(ctx context.Context, kind Kind, explained *policy.Explanation, thorough bool) ([]policy.Obstacle, error) {
	out := explained.Obstacles(w.Controller.Surroundings())
	answer, err := w.ControllerMayDelete(ctx, kind, explained.Facts.Namespace)
	if err != nil {
		return nil, err
	}
	if answer == rules.No {
		out = append(out, policy.Obstacle{Kind: policy.ObstaclePermission, Stops: true,
			Message: fmt.Sprintf("%s may not delete %s here", w.Controller.User, kind.GroupResource())})
	}
	if !thorough {
		return out, nil
	}
	paused, err := w.paused(ctx, explained)
	if err != nil {
		return nil, err
	}
	return append(out, paused...), nil
}

var eventResource = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// actionPause is the action of Events by which the controller says that it pauses deletions of a source, reasonGoOn the reason of the
// one that ends it.
const (
	actionPause = "Pause"
	reasonGoOn  = "DeletionsGoOn"
)

// paused says that the deletions of the object's source are paused, as far as its Events tell.
func (w *World) paused(ctx context.Context, explained *policy.Explanation) ([]policy.Obstacle, error) {
	goes, ok := explained.Goes()
	if !ok || goes.Source.Level != policy.LevelNamespace {
		return nil, nil
	}
	selector := fields.Set{"regarding.kind": "Namespace", "regarding.name": goes.Source.Name}.AsSelector().String()
	var last *unstructured.Unstructured
	err := pages(ctx, w.clients.Objects.Resource(eventResource).Namespace(metav1.NamespaceDefault), metav1.ListOptions{FieldSelector: selector},
		func(event *unstructured.Unstructured) error {
			action, _, _ := unstructured.NestedString(event.Object, "action")
			if action == actionPause && (last == nil || eventTime(last).Before(eventTime(event))) {
				last = event
			}
			return nil
		})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Events of namespace %q: %w", goes.Source.Name, err)
	}
	if last == nil {
		return nil, nil
	}
	reason, _, _ := unstructured.NestedString(last.Object, "reason")
	kind, _, _ := unstructured.NestedString(last.Object, "type")
	note, _, _ := unstructured.NestedString(last.Object, "note")
	if reason == reasonGoOn || kind != corev1.EventTypeWarning {
		return nil, nil
	}
	return []policy.Obstacle{{Kind: policy.ObstacleBreaker, Stops: true,
		Message: fmt.Sprintf("deletions by %s were paused at %s: %s", goes.Source.Phrase(), eventTime(last).UTC().Format(time.RFC3339), note)}}, nil
}

// eventTime is when an Event was last seen.
func eventTime(event *unstructured.Unstructured) time.Time {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"eventTime"}, {"deprecatedLastTimestamp"}, {"metadata", "creationTimestamp"}} {
		text, _, _ := unstructured.NestedString(event.Object, path...)
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return at
		}
	}
	return time.Time{}
}
