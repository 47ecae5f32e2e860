package world

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// readPlatform reads profiles and policies, and adds those that are treated as if they were
// applied.
func (w *World) readPlatform(ctx context.Context) error {
	builtin := w.options.Builtin
	if w.Controller.NoBuiltinProfiles {
		builtin = profiles.Typed(builtin)
	}
	known, err := platform.New(builtin)
	if err != nil {
		return err
	}
	taughtHere, err := readAll[v1alpha1.KindProfile](ctx, w, v1alpha1.KindProfiles)
	if err != nil {
		return err
	}
	for _, object := range taughtHere {
		if errs := known.SetProfile(object); len(errs) > 0 {
			w.note("KindProfile %s cannot be used: %s", object.Name, errs.ToAggregate())
		}
	}
	for _, object := range w.options.Profiles {
		if errs := known.SetProfile(object); len(errs) > 0 {
			return fmt.Errorf("KindProfile %s cannot be used: %w", object.Name, errs.ToAggregate())
		}
	}
	policies, err := readAll[v1alpha1.LifecyclePolicy](ctx, w, v1alpha1.LifecyclePolicies)
	if err != nil {
		return err
	}
	for _, object := range policies {
		if errs := known.SetPolicy(object); len(errs) > 0 {
			w.note("LifecyclePolicy %s cannot be used: %s", object.Name, errs.ToAggregate())
		}
	}
	for _, object := range w.options.Policies {
		// The controller would stamp it like this: the defaults apply to objects that are created
		// from now on.
		object = object.DeepCopy()
		object.Status.Defaults = expression.StampPolicy(object, w.options.Now)
		if errs := known.SetPolicy(object); len(errs) > 0 {
			return fmt.Errorf("LifecyclePolicy %s cannot be used: %w", object.Name, errs.ToAggregate())
		}
	}
	w.platform = known.Snapshot()
	taught := map[schema.GroupKind]bool{}
	for _, object := range slices.Concat(taughtHere, w.options.Profiles) {
		kind := schema.GroupKind{Group: object.Spec.Kind.Group, Kind: object.Spec.Kind.Kind}
		if taught[kind] = true; object.Spec.State != nil && !custom(kind.Group) && !policy.HasOwnCode(kind) {
			w.undefined(kind)
		}
	}
	return w.readDefinitions(ctx, known, taught)
}

// undefined notes a kind of which the controller does not look for finished objects, whatever its
// KindProfile says. Without a CustomResourceDefinition it does so for Jobs and Pods only.
func (w *World) undefined(kind schema.GroupKind) {
	w.unfed[kind] = true
	w.note("the finish time in the KindProfile of %s has no effect: no CustomResourceDefinition defines the kind", kind)
}

// readAll reads all objects of one of Curfew's kinds. There are none where Curfew is not installed.
func readAll[T any](ctx context.Context, w *World, resource string) ([]*T, error) {
	var out []*T
	at := v1alpha1.GroupVersion.WithResource(resource)
	err := pages(ctx, w.lister(at, metav1.NamespaceAll), metav1.ListOptions{}, func(item runtime.Object) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return err
		}
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object); err != nil {
			u := unstructured.Unstructured{Object: content}
			return fmt.Errorf("%s %s has a form that this version does not know: %w", u.GetKind(), u.GetName(), err)
		}
		out = append(out, object)
		return nil
	})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		w.lack("list %s.%s", resource, v1alpha1.GroupVersion.Group)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", resource, err)
	}
	return out, nil
}

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// readDefinitions adapts the profiles to the installed versions of their kinds. Without the
// permission they apply as written, which differs for a few kinds in old versions only.
func (w *World) readDefinitions(ctx context.Context, known *platform.Store, taught map[schema.GroupKind]bool) error {
	served, err := w.served()
	if err != nil {
		return err
	}
	for _, profile := range w.platform.Profiles {
		at := schema.GroupResource{Group: profile.Kind.Group, Resource: profile.Resource}
		if _, ok := served[at]; !ok || profile.State == nil || !custom(profile.Kind.Group) {
			continue
		}
		object, err := w.clients.Objects.Resource(definitionResource).Get(ctx, at.String(), metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return nil
		}
		if apierrors.IsNotFound(err) {
			if taught[profile.Kind.GroupKind()] {
				w.undefined(profile.Kind.GroupKind())
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", at, err)
		}
		definition := expression.DefinitionOf(object.Object)
		known.SetDefinition(object.GetName(), &definition)
		compiled := w.platform.Compiled(profile.Kind.GroupKind())
		if compiled == nil {
			continue
		}
		if _, ok := definition.Serves(compiled); !ok {
			w.unfed[profile.Kind.GroupKind()] = true
			w.note("%s is not served in the version or scope of profile %s: no TTL after finished applies to it", at, profile.Name)
		}
	}
	w.platform = known.Snapshot()
	return nil
}

// custom reports whether the kinds of a group have CustomResourceDefinitions.
func custom(group string) bool { return group != "" && group != "batch" && group != "apps" }
