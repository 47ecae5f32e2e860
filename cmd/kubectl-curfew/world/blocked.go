package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
)

// blockedReasons are the reasons of the Events that the controller writes on a due object that it
// cannot delete (package controller/engine), or keeps because of something that only it has read,
// such as the template of the owner. It repeats them before the API server drops them.
var blockedReasons = map[string]policy.ObstacleKind{
	"DeleteRefused": policy.ObstacleRefused, "DeleteConflict": policy.ObstacleConflict, "Kept": policy.ObstacleValue,
}

// blocked says why the controller could not delete a due object, by the Event on it. It is silent
// where the user may not list Events.
func (w *World) blocked(ctx context.Context, facts *policy.Facts) ([]policy.Obstacle, error) {
	known, err := w.blockedIn(ctx, metav1.NamespaceAll)
	if known == nil && err == nil {
		known, err = w.blockedIn(ctx, cmp.Or(facts.Namespace, metav1.NamespaceDefault))
	}
	obstacle, ok := known[facts.UID]
	if err != nil || !ok {
		return nil, err
	}
	return []policy.Obstacle{obstacle}, nil
}

// blockedIn are the latest such Events of a namespace by the UID of their object, or nil where the
// user may not list them. They are read once.
func (w *World) blockedIn(ctx context.Context, namespace string) (map[types.UID]policy.Obstacle, error) {
	return w.blockedBy.get(namespace, func() (map[types.UID]policy.Obstacle, error) {
		found, latest := map[types.UID]policy.Obstacle{}, map[types.UID]string{}
		for _, reason := range slices.Sorted(maps.Keys(blockedReasons)) {
			options := metav1.ListOptions{FieldSelector: "reason=" + reason}
			err := pages(ctx, w.lister(corev1.SchemeGroupVersion.WithResource("events"), namespace), options, func(item runtime.Object) error {
				event, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
				if uid, at, message := readBlocked(event); at >= latest[uid] {
					found[uid] = policy.Obstacle{Kind: blockedReasons[reason], Message: message, Stops: true}
					latest[uid] = at
				}
				return err
			})
			switch {
			case apierrors.IsForbidden(err):
				return nil, nil
			case err != nil:
				return nil, fmt.Errorf("listing Events with reason %s: %w", reason, err)
			}
		}
		return found, nil
	})
}

// readBlocked reads an Event. Times in RFC 3339 sort as text.
func readBlocked(event map[string]any) (uid types.UID, at, message string) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(event, path...)
		return value
	}
	at = cmp.Or(text("series", "lastObservedTime"), text("lastTimestamp"), text("eventTime"), text("metadata", "creationTimestamp"))
	return types.UID(text("involvedObject", "uid")), at, text("message")
}
