package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// ReadLocal reads files as if they were applied. namespace is the namespace of objects that name
// none.
func ReadLocal(ctx context.Context, names []string, recursive bool, namespace string, r io.Reader, progress *console.Progress) (
	*Files, error) {
	files, err := folders.ListFiles(names, recursive, nil, r)
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(namespace, lint.DefaultNamespace)
	known, schemas, err := session.Builtin()
	if err != nil {
		return nil, err
	}
	var policies []*cleanup.Policy
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	var objects []*unstructured.Unstructured
	manifests := folders.NewManifests(files)
	err = manifests.Each(ctx, progress, func(document *lint.Document) error {
		object := &unstructured.Unstructured{Object: document.Object}
		kind := object.GroupVersionKind()
		if kind.Kind == CaseKind && kind.GroupVersion().String() == CaseVersion {
			return nil // It names objects, and uses none.
		}
		if kind.Group != wellknown.Group || !strings.HasSuffix(kind.Kind, "CleanupPolicy") {
			objects = append(objects, object)
			return nil
		}
		object = object.DeepCopy()
		switch {
		case kind.Kind != "CleanupPolicy":
			object.SetNamespace("")
		case object.GetNamespace() == "":
			object.SetNamespace(namespace)
		}
		stored, err := schemas.Stored(ctx, object.Object)
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", document.File, kind.Kind, object.GetName(), err)
		}
		compiled, errs, _ := cleanup.Read(compiler, &unstructured.Unstructured{Object: stored})
		if len(errs) > 0 {
			return fmt.Errorf("%s: %s %s cannot run: %w", document.File, kind.Kind, object.GetName(), errs.ToAggregate())
		}
		policies = append(policies, compiled)
		return nil
	})
	if err == nil && len(manifests.Unreadable) > 0 {
		err = manifests.Unreadable[0]
	}
	if err != nil {
		return nil, err
	}
	return newFiles(ctx, policies, objects, known, schemas, namespace)
}

// Policy is the only policy of the files, or the one that is named.
func (f *Files) Policy(args []string) (*cleanup.Policy, error) {
	var names []string
	var found []*cleanup.Policy
	for _, policy := range f.policies {
		name := policyName(policy)
		if names = append(names, name); len(args) == 0 || args[0] == policy.Name || args[0] == name {
			found = append(found, policy)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(names) == 0:
		return nil, errors.New("there is no CleanupPolicy or ClusterCleanupPolicy in the files")
	default:
		slices.Sort(names)
		return nil, fmt.Errorf("name one of the policies in the files: %s", strings.Join(names, ", "))
	}
}

// policyName is a policy as kubectl takes it.
func policyName(p *cleanup.Policy) string {
	if p.Namespace == "" {
		return "clustercleanuppolicy/" + p.Name
	}
	return "cleanuppolicy/" + p.Name
}

// Preview is a run on the manifests. since is since when all of them have matched in each run; zero
// for a first run.
func (f *Files) Preview(ctx context.Context, p *cleanup.Policy, now, since time.Time) (*Result, error) {
	options := survey.Options{
		Account: p.Account.String(), Served: f.Resources, Source: f,
		Namespaces: func() ([]*resolution.NamespacePolicy, error) { return f.namespaces, nil }, Protect: judging.DefaultProtect(), Now: now,
	}
	if !since.IsZero() {
		options.Matched = func(context.Context) (cleanup.Matched, error) { return p.MatchedSince(since, f.uids()), nil }
	}
	return Of(ctx, p, f, options)
}

func (f *Files) uids() (out []types.UID) {
	for _, objects := range f.objects {
		for _, object := range objects {
			out = append(out, object.GetUID())
		}
	}
	return out
}

// Files are manifests that take the place of a cluster. They are a [survey.Reader] that may
// everything, and a [platform.Source].
type Files struct {
	// Undefined are namespaces that have objects and no manifest. They are treated as Namespaces
	// without annotations and labels.
	Undefined []string

	// Offline knows no runtimes and nothing that counts Pods, which no cleanup policy asks for.
	platform.Offline
	policies   []*cleanup.Policy
	resources  []cleanup.Resource
	objects    map[schema.GroupResource][]*unstructured.Unstructured
	namespaces []*resolution.NamespacePolicy
}

var (
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	profileKind    = schema.GroupKind{Group: wellknown.Group, Kind: "KindProfile"}
)

// newFiles reads manifests as if they were applied. namespace is the namespace of objects that name
// none.
func newFiles(ctx context.Context, policies []*cleanup.Policy, manifests []*unstructured.Unstructured, known *platform.Store, schemas *lint.Schemas,
	namespace string) (*Files, error) {
	definitions := map[schema.GroupKind]*unstructured.Unstructured{}
	for _, object := range manifests {
		switch object.GroupVersionKind().GroupKind() {
		case definitionKind:
			known.SetDefinition(object.GetName(), new(expression.DefinitionOf(object.Object)))
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			definitions[schema.GroupKind{Group: group, Kind: kind}] = object
		case profileKind:
			stored, err := schemas.Stored(ctx, object.Object)
			if err != nil {
				return nil, fmt.Errorf("KindProfile %s: %w", object.GetName(), err)
			}
			profile := &v1alpha1.KindProfile{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored, profile); err != nil {
				return nil, err
			}
			if errs := known.SetProfile(profile); len(errs) > 0 {
				return nil, fmt.Errorf("KindProfile %s: %w", object.GetName(), errs.ToAggregate())
			}
		}
	}
	f := &Files{Offline: platform.Offline{Platform: known.Snapshot()}, policies: policies, objects: map[schema.GroupResource][]*unstructured.Unstructured{}}
	for _, object := range manifests {
		f.add(object.DeepCopy(), definitions, namespace)
	}
	f.addNamespaces()
	return f, nil
}

// add adds an object, and its kind.
func (f *Files) add(object *unstructured.Unstructured, definitions map[schema.GroupKind]*unstructured.Unstructured, namespace string) {
	kind := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	profile := f.Platform.Profiles.For(kind)
	resource, clusterScoped := plural.GroupResource(), profile.ClusterScoped || lint.ClusterScoped(kind.GroupKind())
	if profile.Resource != "" {
		resource.Resource = profile.Resource
	}
	if definition := definitions[kind.GroupKind()]; definition != nil {
		resource.Resource, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "plural")
		scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope")
		clusterScoped = scope == "Cluster"
	}
	if clusterScoped {
		object.SetNamespace("")
	} else if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	if object.GetUID() == "" { // keepNewest tells objects apart by it.
		object.SetUID(types.UID(resource.String() + "/" + object.GetNamespace() + "/" + object.GetName()))
	}
	same := func(other *unstructured.Unstructured) bool {
		return other.GetNamespace() == object.GetNamespace() && other.GetName() == object.GetName()
	}
	// Of two manifests of one object the later one counts, as after applying both.
	f.objects[resource] = append(slices.DeleteFunc(f.objects[resource], same), object)
	i := slices.IndexFunc(f.resources, func(r cleanup.Resource) bool { return r.GroupResource == resource })
	if i < 0 {
		f.resources = append(f.resources, cleanup.Resource{GroupResource: resource, Kind: kind.Kind, Namespaced: !clusterScoped})
		i = len(f.resources) - 1
	}
	if !slices.Contains(f.resources[i].Versions, kind.Version) {
		f.resources[i].Versions = append(f.resources[i].Versions, kind.Version)
		f.resources[i].Listable = f.resources[i].Versions
	}
}

// addNamespaces reads the Namespaces, and makes up those that have objects and no manifest.
func (f *Files) addNamespaces() {
	known := map[string]bool{}
	for _, object := range f.objects[schema.GroupResource{Resource: "namespaces"}] {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = object.GetName() // as the API server does
		object.SetLabels(labels)
		f.namespaces = append(f.namespaces, resolution.ParseNamespace(object.GetName(), object.GetAnnotations(), labels))
		known[object.GetName()] = true
	}
	for _, all := range f.objects {
		for _, object := range all {
			if name := object.GetNamespace(); name != "" && !known[name] {
				known[name] = true
				f.Undefined = append(f.Undefined, name)
				f.namespaces = append(f.namespaces, resolution.ParseNamespace(name, nil, map[string]string{"kubernetes.io/metadata.name": name}))
			}
		}
	}
	slices.Sort(f.Undefined)
}

// Namespace implements [platform.Source].
func (f *Files) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	i := slices.IndexFunc(f.namespaces, func(p *resolution.NamespacePolicy) bool { return p.Name == name })
	if i < 0 {
		return nil, platform.ErrUnknown
	}
	return f.namespaces[i], nil
}

// Resources are the kinds of the manifests.
func (f *Files) Resources(context.Context) ([]cleanup.Resource, error) { return f.resources, nil }

// List implements survey.Reader.
func (f *Files) List(_ context.Context, resource schema.GroupVersionResource, namespace string, _ bool, options metav1.ListOptions) (
	[]unstructured.Unstructured, string, error) {
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, "", err
	}
	fields, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return nil, "", err
	}
	var out []unstructured.Unstructured
	for _, object := range f.objects[resource.GroupResource()] {
		here := namespace == "" || object.GetNamespace() == namespace
		if here && fields.Matches(selectable(object)) && selector.Matches(labels.Set(object.GetLabels())) {
			out = append(out, *object.DeepCopy())
		}
	}
	return out, "", nil
}

// selectable are the fields that field selectors of surveys name. The API server sets the type of a
// Secret that has none.
func selectable(object *unstructured.Unstructured) fields.Set {
	secretType, _, _ := unstructured.NestedString(object.Object, "type")
	node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
	return fields.Set{"metadata.name": object.GetName(), "type": cmp.Or(secretType, "Opaque"), "spec.nodeName": node}
}

// Get implements survey.Reader.
func (f *Files) Get(_ context.Context, resource schema.GroupVersionResource, namespace, name string, _ bool) (
	*unstructured.Unstructured, error) {
	for _, object := range f.objects[resource.GroupResource()] {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return object.DeepCopy(), nil
		}
	}
	return nil, apierrors.NewNotFound(resource.GroupResource(), name)
}

// Lacks implements survey.Reader.
func (f *Files) Lacks(context.Context, schema.GroupVersionResource, string, ...string) (string, error) {
	return "", nil
}
