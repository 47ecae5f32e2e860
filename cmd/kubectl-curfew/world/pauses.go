package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// MadeHere is the label of the pauses that kubectl curfew pause made.
const MadeHere = "app.kubernetes.io/managed-by"

var pauseResource = v1alpha1.GroupVersion.WithResource(v1alpha1.DeletionPauses)

// Pause is a pause in the cluster.
type Pause struct {
	policy.Pause
	// Here: kubectl curfew pause made it.
	Here bool
}

// Pauses are all pauses, with those that have ended, as far as the user may read them.
type Pauses struct {
	Presence Presence
	All      []Pause
}

// InEffect are those that have not ended.
func (p *Pauses) InEffect(now time.Time) []Pause {
	return slices.DeleteFunc(slices.Clone(p.All), func(one Pause) bool { return one.Over(now) })
}

// confinedTo reports whether the controller runs with --only-namespaces: a ConfigMap then takes the
// place of DeletionPauses.
func (c *Controller) confinedTo() bool { return c.Published["only-namespaces"] != "" }

// readPauses reads the pauses. That the user may not is a note.
func (w *World) readPauses(ctx context.Context) error {
	if w.Controller.confinedTo() {
		object, presence, err := Read[corev1.ConfigMap](ctx, w, settings.Resource, w.Controller.Namespace, policy.PauseConfigMap)
		switch w.Pauses.Presence = presence; {
		case err != nil:
			return err
		case presence == Unread:
			w.lack("get configmaps/%s in namespace %q", policy.PauseConfigMap, w.Controller.Namespace)
		case presence == Found:
			one, err := policy.PauseOfConfigMap(object.Data)
			if err != nil {
				w.note("ConfigMap %s cannot be read, so that everything is paused: %s", policy.PauseConfigMap, strings.ReplaceAll(err.Error(), "\n", ", "))
			}
			w.Pauses.All = []Pause{{one, object.Labels[MadeHere] == fieldManager}}
		}
		return nil
	}
	found, presence, err := Items[v1alpha1.DeletionPause](ctx, w, pauseResource, "", "")
	switch w.Pauses.Presence = presence; {
	case apierrors.IsNotFound(err): // status names missing kinds.
		w.Pauses.Presence = Missing
		return nil
	case err == nil && presence == Unread:
		w.lack("list %s", pauseResource.GroupResource())
	}
	for _, object := range found {
		w.Pauses.All = append(w.Pauses.All, Pause{policy.PauseOf(object), object.Labels[MadeHere] == fieldManager})
	}
	return err
}

// HeldByPause are the pauses that hold what a trigger does to an object that is due at an instant;
// zero is any.
func (w *World) HeldByPause(facts *policy.Facts, trigger policy.Trigger, at time.Time) (out []policy.Obstacle) {
	if trigger == policy.TriggerDeadline && !Stops(facts) {
		return nil
	}
	return w.heldByPause(facts.Profile.Kind, facts.Namespace, facts.Name, trigger, at)
}

func (w *World) heldByPause(kind schema.GroupVersionKind, namespace, name string, trigger policy.Trigger, at time.Time) (out []policy.Obstacle) {
	scope := policy.PauseScope(kind.Group, kind.Kind, namespace, name)
	for _, one := range w.Pauses.InEffect(w.options.Now) {
		if one.Holds(trigger, scope) && (at.IsZero() || !one.Over(at)) {
			out = append(out, policy.Obstacle{Kind: policy.ObstaclePause, Stops: true, Message: one.Message()})
		}
	}
	return out
}

// CreatePause creates a pause, and returns its name.
func (w *World) CreatePause(ctx context.Context, pause policy.Pause, dryRun bool) (name string, err error) {
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetLabels(map[string]string{MadeHere: fieldManager})
	client := w.clients.Objects.Resource(pauseResource).Namespace("")
	if w.Controller.confinedTo() {
		client = w.clients.Objects.Resource(settings.Resource).Namespace(w.Controller.Namespace)
		object.SetAPIVersion("v1")
		object.SetKind("ConfigMap")
		object.SetName(policy.PauseConfigMap)
		data := map[string]any{}
		for key, value := range pause.ConfigMapData() {
			data[key] = value
		}
		object.Object["data"] = data
	} else {
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(pause.Spec()))
		if err != nil {
			return "", err
		}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeletionPause"))
		object.SetName(pause.Name)
		object.Object["spec"] = spec
	}
	_, err = client.Create(ctx, object, options)
	if apierrors.IsNotFound(err) {
		err = errors.New("DeletionPauses are not served: Curfew is not installed, or is older than this command")
	}
	return Kind{GroupVersionKind: object.GroupVersionKind()}.Name(object.GetName()), err
}

// DeletePause deletes a pause, and returns its name.
func (w *World) DeletePause(ctx context.Context, name string, dryRun bool) (string, error) {
	options := metav1.DeleteOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	client, kind := w.clients.Objects.Resource(pauseResource).Namespace(""), v1alpha1.GroupVersion.WithKind("DeletionPause")
	if w.Controller.confinedTo() {
		client, kind = w.clients.Objects.Resource(settings.Resource).Namespace(w.Controller.Namespace), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	}
	return Kind{GroupVersionKind: kind}.Name(name), client.Delete(ctx, name, options)
}

// NativelyDue counts the objects that a pause names and whose kind's own controller deletes them
// before it ends: no pause holds that.
func (w *World) NativelyDue(ctx context.Context, pause policy.Pause, now time.Time) (count int, err error) {
	kinds, err := w.Kinds()
	if err != nil {
		return 0, err
	}
	for _, kind := range kinds {
		if kind.Profile == nil || kind.Profile.State == nil {
			continue
		}
		err := w.List(ctx, kind, Query{}, func(object map[string]any) error {
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
