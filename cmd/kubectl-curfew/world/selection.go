package world

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/paging"
)

// Selection selects objects as kubectl does: KIND/NAME…, KIND NAME…, or KIND with a selector or
// All.
type Selection struct {
	Args      []string
	Namespace string
	// Everywhere is -A; names cannot be given then.
	Everywhere bool
	// Selector is -l; All is --all.
	Selector string
	All      bool
	// References are objects from a file, which exclude everything else.
	References []Reference
}

// Selected is one selected object.
type Selected struct {
	Kind   Kind
	Object map[string]any
	// Namespace and Name of the object.
	Namespace, Name string
	// Gone says why there is no object, where a reference names one.
	Gone *GoneError
}

// KindOf finds a kind by any of its names: jobs, job, Job, jobs.batch, deploy.
func (w *World) KindOf(text string) (Kind, error) {
	at, ok, err := w.find(func(of schema.GroupVersion, resource *metav1.APIResource) int { return rank(text, of, resource) })
	if err != nil {
		return Kind{}, err
	}
	if !ok {
		return Kind{}, fmt.Errorf("the server has no kind %q: kubectl api-resources lists those that it has", text)
	}
	return w.servedAt(at, text)
}

// find returns the resource with the lowest rank above 0, the first one of several.
func (w *World) find(rank func(of schema.GroupVersion, resource *metav1.APIResource) int) (at schema.GroupResource, ok bool, err error) {
	found, err := w.discover()
	if err != nil {
		return at, false, err
	}
	best := 0
	for _, list := range found.lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			if rank := rank(of, resource); rank > 0 && (best == 0 || rank < best) && !strings.Contains(resource.Name, "/") {
				at, best = of.WithResource(resource.Name).GroupResource(), rank
			}
		}
	}
	return at, best > 0, nil
}

func (w *World) servedAt(at schema.GroupResource, text string) (Kind, error) {
	kind, ok, err := w.Kind(at)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", text, ErrNotServed)
	}
	return kind, err
}

// Validate finds the errors that can be found without a cluster.
func (s Selection) Validate() error {
	_, err := s.named()
	return err
}

// One reports whether one object is named.
func (s Selection) One() bool {
	names, err := s.named()
	return err == nil && len(names) == 1 && names[0].name != ""
}

// Select reads the selected objects, each once, in the order of the arguments.
func (w *World) Select(ctx context.Context, s Selection) ([]Selected, error) {
	names, err := s.named()
	if err != nil {
		return nil, err
	}
	if len(s.References) > 0 {
		return w.referred(ctx, s.References, s.Namespace)
	}
	var out []Selected
	for _, named := range names {
		kind, err := w.KindOf(named.kind)
		if err != nil {
			return nil, err
		}
		if named.name != "" {
			one, err := w.Get(ctx, kind, s.Namespace, named.name)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
			continue
		}
		namespace := s.Namespace
		if s.Everywhere || kind.ClusterScoped {
			namespace = ""
		}
		err = pages(ctx, w.lister(kind.At(), namespace), metav1.ListOptions{LabelSelector: s.Selector}, func(item runtime.Object) error {
			if object, ok := item.(*unstructured.Unstructured); ok {
				out = append(out, selected(kind, object))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
	}
	return each(out), nil
}

func selected(kind Kind, object *unstructured.Unstructured) Selected {
	return Selected{Kind: kind, Object: object.Object, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// each drops objects that were selected twice, for example by two names of the kind: extending one
// twice would be wrong.
func each(all []Selected) []Selected {
	seen := map[types.UID]bool{}
	return slices.DeleteFunc(all, func(one Selected) bool {
		uid := UIDOf(one.Object)
		known := uid != "" && seen[uid]
		seen[uid] = true
		return known
	})
}

// Get reads one object.
func (w *World) Get(ctx context.Context, kind Kind, namespace, name string) (Selected, error) {
	if kind.ClusterScoped {
		namespace = ""
	}
	object, err := w.clients.Objects.Resource(kind.At()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		gone := &GoneError{Kind: kind, Namespace: namespace, Name: name, reason: kind.Name(name) + " does not exist"}
		if namespace != "" {
			gone.reason += fmt.Sprintf(" in namespace %q", namespace)
		}
		return Selected{}, gone
	}
	if err != nil {
		return Selected{}, err
	}
	return selected(kind, object), nil
}

// named is one argument: a kind, and a name unless there is a selector or All.
type named struct{ kind, name string }

func (s Selection) named() ([]named, error) {
	switch given := len(s.Args) > 0; {
	case len(s.References) > 0 && (given || s.Everywhere || s.All || s.Selector != ""):
		return nil, errors.New("-f names the objects: leave out arguments, -A, -l and --all")
	case len(s.References) > 0:
		return nil, nil
	case !given:
		return nil, errors.New("name an object: KIND/NAME, KIND NAME, or KIND with -l or --all")
	}
	var out []named
	slashed := strings.Contains(s.Args[0], "/")
	for _, arg := range s.Args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case ok != slashed:
			return nil, fmt.Errorf("%q: give either KIND/NAME throughout, or KIND NAME", arg)
		case ok && (kind == "" || name == "" || strings.Contains(name, "/")):
			return nil, fmt.Errorf("%q: give KIND/NAME, and the namespace with -n", arg)
		case ok:
			out = append(out, named{kind, name})
		}
	}
	many := s.Selector != "" || s.All
	switch {
	case slashed && many, len(s.Args) > 1 && many:
		return nil, errors.New("give names, or -l or --all, but not both")
	case (slashed || len(s.Args) > 1) && s.Everywhere:
		return nil, errors.New("a name needs a namespace: give -n instead of -A")
	case slashed:
		return out, nil
	}
	kinds := strings.Split(s.Args[0], ",")
	switch {
	case len(s.Args) == 1 && !many:
		return nil, fmt.Errorf("%q names no object: give %[1]s/NAME, or -l or --all", s.Args[0])
	case len(s.Args) == 1:
		for _, kind := range kinds {
			out = append(out, named{kind: kind})
		}
	case len(kinds) > 1:
		return nil, fmt.Errorf("%q: give names as KIND/NAME for several kinds", s.Args[0])
	default:
		for _, name := range s.Args[1:] {
			out = append(out, named{s.Args[0], name})
		}
	}
	return out, nil
}

// Reference names one object. Without a UID it means whatever has the name.
type Reference struct {
	schema.GroupKind
	Namespace, Name string
	UID             types.UID
}

// GoneError says that an object does not exist, or is not the one that was meant.
type GoneError struct {
	Kind            Kind
	Namespace, Name string
	reason          string
}

// Error implements error.
func (e *GoneError) Error() string { return e.reason }

// referred reads the objects that references name. One that is gone, or was created again, does not
// stop the others.
func (w *World) referred(ctx context.Context, references []Reference, namespace string) ([]Selected, error) {
	var out []Selected
	for _, reference := range references {
		kind, err := w.kindOf(reference.GroupKind)
		if err != nil {
			return nil, err
		}
		in := cmp.Or(reference.Namespace, namespace)
		if kind.ClusterScoped {
			in = ""
		}
		one, err := w.Get(ctx, kind, in, reference.Name)
		gone := (*GoneError)(nil)
		switch {
		case errors.As(err, &gone):
			gone = &GoneError{reason: "does not exist any more"}
		case err != nil:
			return nil, err
		case reference.UID != "" && UIDOf(one.Object) != reference.UID:
			gone = &GoneError{reason: fmt.Sprintf("was deleted and created again: its UID is %s and no longer %s", UIDOf(one.Object), reference.UID)}
		}
		if gone != nil {
			one = Selected{Kind: kind, Namespace: in, Name: reference.Name, Gone: gone}
		}
		out = append(out, one)
	}
	return each(out), nil
}

// kindOf finds the kind of a reference.
func (w *World) kindOf(of schema.GroupKind) (Kind, error) {
	at, ok, err := w.find(func(version schema.GroupVersion, resource *metav1.APIResource) int {
		if version.Group == of.Group && resource.Kind == of.Kind {
			return 1
		}
		return 0
	})
	switch {
	case err != nil:
		return Kind{}, err
	case !ok:
		return Kind{}, fmt.Errorf("the server has no kind %s", of)
	}
	return w.servedAt(at, of.String())
}

const fieldManager = "kubectl-curfew"

// Patch sends a JSON merge patch for an object in exactly the state that was read. A conflict means
// that another client changed it.
func (w *World) Patch(ctx context.Context, kind Kind, object, patch map[string]any, dryRun bool) error {
	u := unstructured.Unstructured{Object: object}
	metadata, _ := patch["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = string(u.GetUID()), u.GetResourceVersion()
	sent := maps.Clone(patch)
	sent["metadata"] = metadata
	body, err := json.Marshal(sent)
	if err != nil {
		return fmt.Errorf("writing the patch of %s: %w", kind.Name(u.GetName()), err)
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = w.clients.Objects.Resource(kind.At()).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, body, options)
	return err
}

// Same reports whether two states belong to one object, and not to two of the same name.
func Same(a, b map[string]any) bool { return UIDOf(a) == UIDOf(b) }

// NamesOf are names of objects of a kind in a namespace, at most one page.
func (w *World) NamesOf(ctx context.Context, text, namespace string) ([]string, error) {
	kind, err := w.KindOf(text)
	if err != nil {
		return nil, err
	}
	if kind.ClusterScoped {
		namespace = ""
	}
	list, err := w.clients.Metadata.Resource(kind.At()).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: paging.Limit})
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out, nil
}

// UIDOf is the UID of an object.
func UIDOf(object map[string]any) types.UID {
	return (&unstructured.Unstructured{Object: object}).GetUID()
}
