package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Open reads what applies to all objects. A missing permission is a note, not an error.
func Open(ctx context.Context, clients Clients, options Options) (*World, error) {
	w := &World{cluster: cluster{clients: clients, unfed: map[schema.GroupKind]bool{}}, options: options}
	w.discover = sync.OnceValues(w.askDiscovery)
	for _, read := range []func(context.Context) error{w.readController, w.readLiveness, w.readPauses, w.readPlatform} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// readController reads the settings. Most users may not, which is no error.
func (w *World) readController(ctx context.Context) error {
	namespace := w.options.Namespace
	w.Controller = Controller{
		Namespace: namespace, User: "system:serviceaccount:" + namespace + ":curfew-controller",
		Protect: append(judging.DefaultProtect(), namespace),
	}
	object, err := w.objects(settings.Resource, namespace).Get(ctx, settings.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		w.Controller.Unknown = fmt.Sprintf("you may not get configmaps/%s in namespace %q", settings.Name, namespace)
		return nil
	case apierrors.IsNotFound(err):
		w.Controller.Settings = Missing
		w.Controller.Unknown = fmt.Sprintf("there is no ConfigMap %s in namespace %q; --curfew-namespace names another", settings.Name, namespace)
		return nil
	case err != nil:
		return fmt.Errorf("reading the settings of Curfew's controller in namespace %q: %w", namespace, err)
	}
	data, _, err := unstructured.NestedStringMap(object.Object, "data")
	w.Controller.Settings, w.Controller.Published = Found, data // Also what another version published.
	read, invalid := w.Controller.with(data)
	if err = errors.Join(err, invalid); err != nil {
		w.Controller.Unknown = fmt.Sprintf("ConfigMap %s in namespace %q cannot be used: %s", settings.Name, namespace, oneLine(err))
		return nil
	}
	w.Controller = read
	return nil
}

// oneLine is the message of several errors.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }

// Settings of the controller, as far as the user may read them; without an answer the defaults.
func Settings(ctx context.Context, clients Clients, namespace string) (Controller, error) {
	w := &World{cluster: cluster{clients: clients}, options: Options{Namespace: namespace}}
	err := w.readController(ctx)
	return w.Controller, err
}

// noteController notes what users have to know first.
func (w *World) noteController() {
	c := &w.Controller
	switch c.State {
	case Stopped:
		w.note("%s: Curfew deletes and stops nothing until one does", c.Why)
	case NotInstalled:
		w.note("%s", c.Why)
	}
	if other := c.otherRelease(w.options.Version); other != "" {
		w.note("%s", other)
	}
	var lacks []string
	if c.Settings == Unread && c.State != NotInstalled {
		lacks = append(lacks, "configmaps/"+settings.Name)
	}
	if c.State == Unknown && c.Lease.Presence == Unread && !c.Lease.Unused {
		lacks = append(lacks, "leases/"+c.Lease.Name)
	}
	what, why := c.Unread()
	switch {
	case len(lacks) > 0 && (c.Settings != Found || c.Unknown == ""):
		w.Lack("get %s in namespace %q", strings.Join(lacks, " and "), c.Namespace)
	case what != "" && (c.Settings != Missing || c.State == Unknown):
		w.note("%s: %s is not known", why, what)
	}
}

// Installed fails where Curfew is not installed.
func (w *World) Installed() error {
	if w.Controller.State == NotInstalled {
		return &NotInstalledError{w.Controller.Why}
	}
	return nil
}

var (
	leaseResource      = coordinationv1.SchemeGroupVersion.WithResource("leases")
	deploymentResource = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// readLiveness reads whether the controller runs, once its settings are read. The Lease decides:
// a replica that is ready but does not lead deletes nothing.
func (w *World) readLiveness(ctx context.Context) error {
	c := &w.Controller
	c.Lease.Name = cmp.Or(c.Lease.Name, defaultLease)
	lease, presence, err := Read[coordinationv1.Lease](ctx, w, leaseResource, c.Namespace, c.Lease.Name)
	if err != nil {
		return err
	}
	c.Lease.Presence = presence
	if presence == Found {
		c.Lease.set(&lease.Spec, w.ServerTime(ctx, w.options.Now))
	}
	if c.Workload, err = w.Workload(ctx, "curfew-controller"); err != nil {
		return err
	}
	found, err := w.discover()
	if err != nil {
		return err
	}
	c.judge(slices.ContainsFunc(found.groups, func(group *metav1.APIGroup) bool { return group.Name == wellknown.Group }))
	w.noteController()
	return nil
}

// Workload reads one of Curfew's Deployments.
func (w *World) Workload(ctx context.Context, name string) (Workload, error) {
	read, presence, err := Read[appsv1.Deployment](ctx, w, deploymentResource, w.Controller.Namespace, name)
	out := Workload{Presence: presence}
	if err != nil || presence != Found {
		return out, err
	}
	out.Wanted, out.Ready = ptr.Deref(read.Spec.Replicas, 1), read.Status.ReadyReplicas
	for i := range read.Spec.Template.Spec.Containers {
		if container := &read.Spec.Template.Spec.Containers[i]; container.Name == "curfew" {
			out.Image, out.Args = container.Image, container.Args
		}
	}
	return out, nil
}

var pauseResource = v1alpha1.GroupVersion.WithResource(v1alpha1.DeletionPauses)

// readPauses reads the pauses. That the user may not is a note.
func (w *World) readPauses(ctx context.Context) error {
	if w.Controller.State == NotInstalled && !w.Controller.Served {
		w.Pauses.Presence = Missing
		return nil
	}
	found, presence, err := Items[unstructured.Unstructured](ctx, w, pauseResource, "", "")
	switch w.Pauses.Presence = presence; {
	case apierrors.IsNotFound(err): // status names missing kinds.
		w.Pauses.Presence = Missing
		return nil
	case err == nil && presence == Unread:
		w.Lack("list %s", pauseResource.GroupResource())
	}
	for _, object := range found {
		read, wrong := typed[v1alpha1.DeletionPause](object)
		if wrong != nil {
			return wrong
		}
		w.Pauses.All = append(w.Pauses.All, Pause{judging.PauseOf(read), read.Labels[MadeHere] == fieldManager, object})
	}
	return err
}

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
	read, err := readAll(ctx, w, v1alpha1.KindProfiles)
	if err != nil {
		return err
	}
	var taughtHere []*v1alpha1.KindProfile
	for _, object := range read {
		object, compiled, errs := known.Compiler().ReadProfile(object.Object)
		known.PutProfile(object.Name, compiled)
		w.noteUnusable("KindProfile "+object.Name, errs, object.Status.Conditions)
		taughtHere = append(taughtHere, object)
	}
	if err := add("KindProfile", w.options.Profiles, known.SetProfile); err != nil {
		return err
	}
	if read, err = readAll(ctx, w, v1alpha1.LifecyclePolicies); err != nil {
		return err
	}
	for _, object := range read {
		object, compiled, errs := known.Compiler().ReadPolicy(object.Object)
		known.PutPolicy(object.Name, compiled)
		w.noteUnusable("LifecyclePolicy "+object.Name, errs, object.Status.Conditions)
	}
	var added []*v1alpha1.LifecyclePolicy
	for _, object := range w.options.Policies {
		// The controller would stamp it like this: the defaults apply to objects that are created
		// from now on.
		object = object.DeepCopy()
		object.Status.Defaults = expression.StampPolicy(object, w.options.Now)
		added = append(added, object)
	}
	if err := add("LifecyclePolicy", added, known.SetPolicy); err != nil {
		return err
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

// noteUnusable notes a policy or profile that this plugin cannot use, or that an older controller
// holds.
func (w *World) noteUnusable(what string, errs field.ErrorList, conditions v1alpha1.Conditions) {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case len(errs) > 0:
		w.note("%s cannot be used: %s", what, errs.ToAggregate())
	case ready != nil && ready.Reason == v1alpha1.ReasonNeedsNewerVersion:
		w.note("the controller, which is older than this plugin, holds %s: %s", what, quote.ShortenTo(ready.Message, 512))
	}
}

// add sets objects that are treated as if they were applied. They must be usable.
func add[T metav1.Object](kind string, added []T, use func(T) field.ErrorList) error {
	for _, object := range added {
		if errs := use(object); len(errs) > 0 {
			return fmt.Errorf("%s %s cannot be used: %w", kind, object.GetName(), errs.ToAggregate())
		}
	}
	return nil
}

// undefined notes a kind whose finished objects the controller does not look for, whatever its
// KindProfile says. Without a CustomResourceDefinition it does so for Jobs and Pods only.
func (w *World) undefined(kind schema.GroupKind) {
	w.unfed[kind] = true
	w.note("the finish time in the KindProfile of %s has no effect: no CustomResourceDefinition defines the kind", kind)
}

// readAll reads all objects of one of Curfew's kinds. There are none where Curfew is not installed.
func readAll(ctx context.Context, w *World, resource string) ([]*unstructured.Unstructured, error) {
	out, presence, err := Items[unstructured.Unstructured](ctx, w, v1alpha1.GroupVersion.WithResource(resource), metav1.NamespaceAll, "")
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err == nil && presence == Unread:
		w.Lack("list %s.%s", resource, v1alpha1.GroupVersion.Group)
	}
	return out, err
}

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// readDefinitions adapts the profiles to the installed versions of their kinds. Without the
// permission they apply as written, which differs for a few kinds in old versions only.
func (w *World) readDefinitions(ctx context.Context, known *platform.Store, taught map[schema.GroupKind]bool) error {
	served, err := w.served()
	if err != nil {
		return err
	}
	if found, err := w.discover(); err == nil && !slices.ContainsFunc(found.groups, func(a *metav1.APIGroup) bool { return a.Name == "kueue.x-k8s.io" }) {
		known.SetNoMultiKueue(func(context.Context) (bool, error) { return true, nil })
		w.platform = known.Snapshot()
	}
	for _, profile := range w.platform.Profiles {
		resource := schema.GroupResource{Group: profile.Kind.Group, Resource: profile.Resource}
		if _, ok := served[resource]; !ok || profile.State == nil || !custom(profile.Kind.Group) {
			continue
		}
		object, err := w.objects(definitionResource, "").Get(ctx, resource.String(), metav1.GetOptions{})
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
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", resource, err)
		}
		definition := expression.DefinitionOf(object.Object)
		known.SetDefinition(object.GetName(), &definition)
		compiled := w.platform.Compiled(profile.Kind.GroupKind())
		if compiled == nil {
			continue
		}
		if _, ok := definition.Serves(compiled); !ok {
			w.unfed[profile.Kind.GroupKind()] = true
			w.note("%s is not served in the version or scope of profile %s: no TTL after finished applies to it", resource, profile.Name)
		}
	}
	w.platform = known.Snapshot()
	return nil
}

// custom reports whether the kinds of a group have CustomResourceDefinitions.
func custom(group string) bool { return group != "" && group != "batch" && group != "apps" }
