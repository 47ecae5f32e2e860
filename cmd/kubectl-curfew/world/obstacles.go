package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Obstacles are what blocks the deletion of an object: what policy finds, and permissions that the
// controller lacks.
func (w *World) Obstacles(ctx context.Context, kind Kind, explained *judging.Explanation) ([]judging.Obstacle, error) {
	out := explained.Obstacles(w.Controller.Surroundings())
	may, err := w.controllerMay(ctx, kind, explained.Facts.Namespace)
	if err != nil {
		return nil, err
	}
	if may.answer == rules.No {
		out = append(out, judging.Obstacle{Kind: judging.ObstaclePermission, Stops: true,
			Message: fmt.Sprintf("Curfew's controller, %s, may not %s %s here", w.Controller.User, may.lacks, kind.GroupResource())})
	}
	return out, nil
}

// controllerMay asks whether Curfew's controller may delete objects of a kind in a namespace. The
// answer is unknown for most users, who may not ask what others may do.
func (w *World) controllerMay(ctx context.Context, kind Kind, namespace string) (permission, error) {
	if kind.ClusterScoped {
		namespace = ""
	}
	// A permission in the whole cluster includes this namespace.
	everywhere, err := w.review(ctx, kind, "", w.Controller.User)
	if err != nil || everywhere.answer != rules.No || namespace == "" {
		return everywhere, err
	}
	return w.review(ctx, kind, namespace, w.Controller.User)
}

// uncertain reports whether something may block an object that the user may not read: the flags of
// the controller and whether it runs, the namespace's mode, or the controller's permissions. Those
// for the built-in kinds come with every installation.
func (w *World) uncertain(ctx context.Context, kind Kind, explained *judging.Explanation) (bool, error) {
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
func (w *World) WithState(ctx context.Context, kind Kind, explained *judging.Explanation, obstacles []judging.Obstacle, now time.Time) (
	all []judging.Obstacle, unknown []string, err error) {
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
	if why != "" && !goes.Expiry.After(now) && !slices.ContainsFunc(obstacles, func(o judging.Obstacle) bool { return o.Stops }) {
		// This only matters once the object is due and nothing else blocks it.
		unknown = append(unknown, "whether deletions are paused: "+why)
	}
	obstacles = append(obstacles, paused...)
	if err != nil || goes.Expiry.After(now) {
		return obstacles, unknown, err
	}
	blocked, err := w.blocked(ctx, blockageOf(explained.Facts, false))
	return append(obstacles, blocked...), unknown, err
}

// Unheeded returns the kinds of objects whose TTL label has no effect, because the controller may
// not delete them, by one object of each kind. unknown counts the kinds for which the user may not
// know. The controller reports kinds with a profile itself, and Kubernetes copies labels to
// endpoints.
func (w *World) Unheeded(ctx context.Context) (kinds []string, unknown int) {
	all, _ := w.Kinds() // Open has read them.
	answers := make([]rules.Answer, len(all))
	group := errgroup.Group{}
	group.SetLimit(8)
	for i, kind := range all {
		if answers[i] = rules.Yes; kind.Profile.State != nil || strings.HasPrefix(kind.Resource, "endpoint") {
			continue
		}
		group.Go(func() error {
			labelled := metav1.ListOptions{LabelSelector: wellknown.LabelTTL, Limit: 1}
			list, err := w.clients.Metadata.Resource(kind.At()).List(ctx, labelled)
			if err == nil && len(list.Items) > 0 {
				may, _ := w.controllerMay(ctx, kind, list.Items[0].Namespace)
				answers[i] = may.answer
			} else if err != nil && !Gone(err) {
				answers[i] = rules.Unknown
			}
			return nil
		})
	}
	_ = group.Wait()
	for i, kind := range all {
		switch answers[i] {
		case rules.No:
			kinds = append(kinds, kind.GroupResource().String())
		case rules.Unknown:
			unknown++
		}
	}
	return kinds, unknown
}

// PausedLabels reports whether deletions by TTL label are paused, for objects of a kind in a
// namespace. Each namespace is read once. It is silent where the user may not know: a pause ends by
// itself.
func (w *World) PausedLabels(ctx context.Context, kind Kind, namespace string) ([]judging.Obstacle, error) {
	return w.pauses.get(kind.GroupResource().String()+" "+namespace, func() ([]judging.Obstacle, error) {
		found, _, err := w.paused(ctx, kind, lifetime.Source{Level: lifetime.LevelObject}, namespace)
		return found, err
	})
}

// paused reports whether the deletions of a source are paused, by the condition that the controller
// keeps on it (package controller/events), or why this user cannot know.
func (w *World) paused(ctx context.Context, kind Kind, source lifetime.Source, namespace string) (
	obstacles []judging.Obstacle, unknown string, err error) {
	// The condition for the levels object and runtime is on the namespace of the object.
	resource, name, condition := namespaceResource, namespace, wellknown.Prefix+v1alpha1.ConditionPaused
	switch source.Level {
	case lifetime.LevelPolicy:
		resource, name, condition = v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies), source.Name, v1alpha1.ConditionPaused
	case lifetime.LevelNamespace:
		name = source.Name
	}
	if name == "" {
		return nil, "of what lies in no namespace only the controller's log and its metric curfew_paused_scopes tell", nil
	}
	object, err := w.objects(resource, "").Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("you may not get %s/%s, whose condition %s tells", resource.GroupResource(), name, condition), nil
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("reading %s %q: %w", resource.GroupResource(), name, err)
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
		obstacles = append(obstacles, judging.Obstacle{Kind: judging.ObstacleBreaker, Stops: true, Message: "since " + since + " " + message})
	}
	return obstacles, "", nil
}

// concerns reports whether the message of one or more pauses applies to objects of a kind whose
// expiry a source decided. A message names its scope: deletions are paused: Job of source "object"
// in namespace "ci" (Refused), all of kind Job, or everything.
func concerns(message, kind string, source lifetime.Source) bool {
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

// blockedReasons are the reasons of the Events that the controller writes on a due object on which
// it cannot act (package controller/expire), or which it keeps because of something that only it
// has read, such as the template of the owner. It repeats them before the API server drops them.
var blockedReasons = map[string]struct {
	kind judging.ObstacleKind
	stop []bool // see blockage
}{
	"DeleteRefused": {judging.ObstacleRefused, []bool{false}}, "StopRefused": {judging.ObstacleRefused, []bool{true}},
	"DeleteConflict": {judging.ObstacleConflict, []bool{false, true}}, "Kept": {judging.ObstacleValue, []bool{false}},
}

// blockage identifies a blocked action: the deletion of an object, or its stop. The UID alone does
// not: a tenant can write an Event that has the UID of an object in another namespace.
type blockage struct {
	namespace string
	uid       types.UID
	stop      bool
}

func blockageOf(facts *policy.Facts, stop bool) blockage {
	return blockage{cmp.Or(facts.Namespace, metav1.NamespaceDefault), facts.UID, stop}
}

// StopRefused says why the controller could not stop an object at its deadline, like blocked.
func (w *World) StopRefused(ctx context.Context, facts *policy.Facts) ([]judging.Obstacle, error) {
	return w.blocked(ctx, blockageOf(facts, true))
}

// blocked says why the controller could not act on a due object, by the Event on it. It is silent
// where the user may not list Events.
func (w *World) blocked(ctx context.Context, key blockage) ([]judging.Obstacle, error) {
	known, err := w.blockedIn(ctx, metav1.NamespaceAll)
	if known == nil && err == nil {
		known, err = w.blockedIn(ctx, key.namespace)
	}
	obstacle, ok := known[key]
	if err != nil || !ok {
		return nil, err
	}
	return []judging.Obstacle{obstacle}, nil
}

// blockedIn are the latest such Events of a namespace, or nil where the user may not list them.
// They are read once.
func (w *World) blockedIn(ctx context.Context, namespace string) (map[blockage]judging.Obstacle, error) {
	return w.blockedBy.get(namespace, func() (map[blockage]judging.Obstacle, error) {
		found, latest := map[blockage]judging.Obstacle{}, map[blockage]string{}
		for _, reason := range slices.Sorted(maps.Keys(blockedReasons)) {
			options := metav1.ListOptions{FieldSelector: "reason=" + reason}
			err := w.Each(ctx, Events, namespace, options, func(event *unstructured.Unstructured) error {
				uid, instant, message := readBlocked(event.Object)
				for _, stop := range blockedReasons[reason].stop {
					if key := (blockage{event.GetNamespace(), uid, stop}); instant >= latest[key] {
						found[key] = judging.Obstacle{Kind: blockedReasons[reason].kind, Message: message, Stops: true}
						latest[key] = instant
					}
				}
				return nil
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

// Events is the resource of Events.
var Events = corev1.SchemeGroupVersion.WithResource("events")

// readBlocked reads an Event. Times in RFC 3339 sort as text.
func readBlocked(event map[string]any) (uid types.UID, instant, message string) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(event, path...)
		return value
	}
	instant = cmp.Or(text("series", "lastObservedTime"), text("lastTimestamp"), text("eventTime"), text("metadata", "creationTimestamp"))
	return types.UID(text("involvedObject", "uid")), instant, text("message")
}

// HeldByPause are the pauses that hold what a trigger does to an object that is due at an instant;
// zero is any.
func (w *World) HeldByPause(facts *policy.Facts, trigger policy.Trigger, t time.Time) (out []judging.Obstacle) {
	if trigger == policy.TriggerDeadline && !Stops(facts) {
		return nil
	}
	kind := facts.Profile.Kind
	return w.heldByPause(judging.PauseScope(kind.Group, kind.Kind, facts.Namespace, facts.Name), trigger, t)
}

func (w *World) heldByPause(scope string, trigger policy.Trigger, t time.Time) (out []judging.Obstacle) {
	for _, pause := range w.Pauses.InEffect(w.options.Now) {
		if pause.Holds(trigger, scope) && (t.IsZero() || !pause.Over(t)) {
			out = append(out, judging.Obstacle{Kind: judging.ObstaclePause, Stops: true, Message: pause.Message()})
		}
	}
	return out
}

var pauseKind = v1alpha1.GroupVersion.WithKind("DeletionPause")

// PauseName is a pause as kubectl takes it.
func PauseName(name string) string { return Kind{GroupVersionKind: pauseKind}.Name(name) }

func pauseObject(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(pauseKind)
	object.SetName(name)
	return object
}

// CreatePause creates a pause, and returns it. With --dry-run=client nothing is sent.
func (w *World) CreatePause(ctx context.Context, pause judging.Pause, dryRun string) (object *unstructured.Unstructured, err error) {
	object = pauseObject(pause.Name)
	object.SetLabels(map[string]string{MadeHere: fieldManager})
	object.Object["spec"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(new(pause.Spec()))
	if err != nil || dryRun == "client" {
		return object, err
	}
	options := metav1.CreateOptions{FieldManager: fieldManager, DryRun: dryRunOf(dryRun == "server")}
	object, err = w.objects(pauseResource, "").Create(ctx, object, options)
	if apierrors.IsNotFound(err) {
		err = errors.New("DeletionPauses are not served: Curfew is not installed, or is older than this command")
	}
	return object, err
}

// DeletePause deletes a pause, and returns it as it was listed, or its name alone. With
// --dry-run=client nothing is sent.
func (w *World) DeletePause(ctx context.Context, name, dryRun string) (*unstructured.Unstructured, error) {
	object := pauseObject(name)
	if i := slices.IndexFunc(w.Pauses.All, func(p Pause) bool { return p.Name == name }); i >= 0 {
		object = w.Pauses.All[i].object
	}
	if dryRun == "client" {
		return object, nil
	}
	return object, w.objects(pauseResource, "").Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRunOf(dryRun == "server")})
}

// NativelyDue counts the objects that a pause names and whose kind's own controller deletes them
// before it ends: no pause holds that.
func (w *World) NativelyDue(ctx context.Context, pause judging.Pause, now time.Time) (count int, err error) {
	kinds, err := w.Kinds()
	if err != nil {
		return 0, err
	}
	for _, kind := range kinds {
		if kind.Profile == nil || kind.Profile.State == nil {
			continue
		}
		err := w.EachOf(ctx, kind, Query{}, func(object map[string]any) error {
			explained, err := w.Explain(ctx, kind, object, now)
			if err != nil {
				return err
			}
			native := NativeDeletion(explained.Facts, now)
			if native != nil && !native.Expiry.IsZero() && !pause.Over(native.Expiry) && pause.Holds(policy.TriggerTTL, explained.Facts.Namespace) {
				count++
			}
			return nil
		})
		if err != nil {
			return count, fmt.Errorf("%s: %w", kind.GroupResource(), err)
		}
	}
	return count, nil
}
