package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Obstacles are what blocks the deletion of an object: what policy finds, and permissions that the
// controller lacks.
func (w *World) Obstacles(ctx context.Context, kind Kind, explained *policy.Explanation) ([]policy.Obstacle, error) {
	out := explained.Obstacles(w.Controller.Surroundings())
	may, err := w.controllerMay(ctx, kind, explained.Facts.Namespace)
	if err != nil {
		return nil, err
	}
	if may.answer == rules.No {
		out = append(out, policy.Obstacle{Kind: policy.ObstaclePermission, Stops: true,
			Message: fmt.Sprintf("Curfew's controller, %s, may not %s %s here", w.Controller.User, may.lacks, kind.GroupResource())})
	}
	return out, nil
}

// uncertain reports whether something may block an object that the user may not read: the flags of
// the controller and whether it runs, the namespace's mode, or the controller's permissions. Those
// for the built-in kinds come with every installation.
func (w *World) uncertain(ctx context.Context, kind Kind, explained *policy.Explanation) (bool, error) {
	if len(w.Controller.unknown()) > 0 || explained.Facts.Namespace != "" && explained.Scope.Namespace == nil {
		return true, nil
	}
	may, err := w.controllerMay(ctx, kind, explained.Facts.Namespace)
	builtin := slices.ContainsFunc(w.options.Builtin, func(profile *v1alpha1.KindProfile) bool {
		return profile.Spec.Kind.Group == kind.Group && profile.Spec.Kind.Kind == kind.Kind
	})
	return may.answer == rules.Unknown && !builtin, err
}

// WithState adds the obstacles that the controller's state shows in the API: pauses and refused
// deletions. unknown says which of them this user cannot check.
func (w *World) WithState(ctx context.Context, kind Kind, explained *policy.Explanation, obstacles []policy.Obstacle, now time.Time) (
	all []policy.Obstacle, unknown []string, err error) {
	unknown = append(w.Controller.unknown(), w.Controller.incomplete(kind)...)
	may, err := w.controllerMay(ctx, kind, explained.Facts.Namespace)
	if err != nil {
		return nil, nil, err
	}
	if may.answer == rules.Unknown {
		unknown = append(unknown, "whether Curfew's controller may delete it: you may not create subjectaccessreviews.authorization.k8s.io")
	}
	goes, ok := explained.Goes()
	if !ok {
		return obstacles, unknown, nil
	}
	paused, why, err := w.paused(ctx, kind, goes.Source, explained.Facts.Namespace)
	if why != "" && !goes.Expiry.After(now) && !slices.ContainsFunc(obstacles, func(o policy.Obstacle) bool { return o.Stops }) {
		// This only matters once the object is due and nothing else blocks it.
		unknown = append(unknown, "whether deletions are paused: "+why)
	}
	obstacles = append(obstacles, paused...)
	if err != nil || goes.Expiry.After(now) {
		return obstacles, unknown, err
	}
	blocked, err := w.blocked(ctx, explained.Facts)
	return append(obstacles, blocked...), unknown, err
}

// PausedLabels reports whether deletions by TTL label are paused, for objects of a kind in a
// namespace. Each namespace is read once. It is silent where the user may not know: a pause ends by
// itself.
func (w *World) PausedLabels(ctx context.Context, kind Kind, namespace string) ([]policy.Obstacle, error) {
	return w.pauses.get(kind.GroupResource().String()+" "+namespace, func() ([]policy.Obstacle, error) {
		found, _, err := w.paused(ctx, kind, policy.Source{Level: policy.LevelObject}, namespace)
		return found, err
	})
}

// paused reports whether the deletions of a source are paused, by the condition that the controller
// keeps on it (package controller/notice), or why this user cannot know.
func (w *World) paused(ctx context.Context, kind Kind, source policy.Source, namespace string) (obstacles []policy.Obstacle, unknown string, err error) {
	// The condition for the levels object and runtime is on the namespace of the object.
	at, name, condition := namespaceResource, namespace, policy.Prefix+v1alpha1.ConditionPaused
	switch source.Level {
	case policy.LevelPolicy:
		at, name, condition = v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies), source.Name, v1alpha1.ConditionPaused
	case policy.LevelNamespace:
		name = source.Name
	}
	if name == "" {
		return nil, "of what lies in no namespace only the controller's log and its metric curfew_paused_scopes tell", nil
	}
	object, err := w.clients.Objects.Resource(at).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("you may not get %s/%s, whose condition %s tells", at.GroupResource(), name, condition), nil
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("reading %s %q: %w", at.GroupResource(), name, err)
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		fields, _ := item.(map[string]any)
		if fields["type"] != condition || fields["status"] != string(metav1.ConditionTrue) {
			continue
		}
		message, _ := fields["message"].(string)
		since, _ := fields["lastTransitionTime"].(string)
		if !concerns(message, kind.Kind, source) {
			continue
		}
		obstacles = append(obstacles, policy.Obstacle{Kind: policy.ObstacleBreaker, Stops: true, Message: "since " + since + " " + message})
	}
	return obstacles, "", nil
}

// concerns reports whether the message of one or more pauses applies to objects of a kind whose
// expiry a source decided. A message names its scope: deletions are paused: Job of source "object"
// in namespace "ci" (Refused), all of kind Job, or everything.
func concerns(message, kind string, source policy.Source) bool {
	for scope := range strings.SplitSeq(message, "; ") {
		switch {
		case strings.Contains(scope, " of source ") && !strings.Contains(scope, fmt.Sprintf(": %s of source %q", kind, source.String())):
		case strings.Contains(scope, ": all of kind ") && !strings.Contains(scope, ": all of kind "+kind+" ("):
		default:
			return true
		}
	}
	return false
}
