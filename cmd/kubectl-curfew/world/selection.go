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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/watch"
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
func (c *cluster) Select(ctx context.Context, s Selection) ([]Selected, error) {
	names, err := s.named()
	if err != nil {
		return nil, err
	}
	if len(s.References) > 0 {
		return c.referred(ctx, s.References, s.Namespace)
	}
	var out []Selected
	for _, named := range names {
		kind, err := c.KindOf(named.kind)
		if err != nil {
			return nil, err
		}
		if named.name != "" {
			object, err := c.Get(ctx, kind, s.Namespace, named.name)
			if err != nil {
				return nil, err
			}
			out = append(out, object)
			continue
		}
		namespace := s.Namespace
		if s.Everywhere || kind.ClusterScoped {
			namespace = ""
		}
		options := metav1.ListOptions{LabelSelector: s.Selector}
		err = c.Each(ctx, kind.At(), namespace, options, func(object *unstructured.Unstructured) error {
			out = append(out, selected(kind, object))
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
	return slices.DeleteFunc(all, func(object Selected) bool {
		uid := UIDOf(object.Object)
		known := uid != "" && seen[uid]
		seen[uid] = true
		return known
	})
}

// Get reads one object.
func (c *cluster) Get(ctx context.Context, kind Kind, namespace, name string) (Selected, error) {
	if kind.ClusterScoped {
		namespace = ""
	}
	object, err := c.objects(kind.At(), namespace).Get(ctx, name, metav1.GetOptions{})
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
func (c *cluster) referred(ctx context.Context, references []Reference, namespace string) ([]Selected, error) {
	var out []Selected
	for _, reference := range references {
		kind, err := c.kindOf(reference.GroupKind)
		if err != nil {
			return nil, err
		}
		where := cmp.Or(reference.Namespace, namespace)
		if kind.ClusterScoped {
			where = ""
		}
		object, err := c.Get(ctx, kind, where, reference.Name)
		gone := (*GoneError)(nil)
		switch {
		case errors.As(err, &gone):
			gone = &GoneError{reason: "does not exist any more"}
		case err != nil:
			return nil, err
		case reference.UID != "" && UIDOf(object.Object) != reference.UID:
			gone = &GoneError{reason: fmt.Sprintf("was deleted and created again: its UID is %s and no longer %s", UIDOf(object.Object), reference.UID)}
		}
		if gone != nil {
			object = Selected{Kind: kind, Namespace: where, Name: reference.Name, Gone: gone}
		}
		out = append(out, object)
	}
	return each(out), nil
}

const fieldManager = "kubectl-curfew"

// dryRunOf is the field of a request's options.
func dryRunOf(yes bool) []string {
	if yes {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Patch sends a JSON merge patch for an object in exactly the state that was read. A conflict means
// that another client changed it.
func (c *cluster) Patch(ctx context.Context, kind Kind, object, patch map[string]any, dryRun bool) error {
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
	options := metav1.PatchOptions{FieldManager: fieldManager, DryRun: dryRunOf(dryRun)}
	_, err = c.objects(kind.At(), u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, body, options)
	return err
}

// NamesOf are names of objects of a kind in a namespace, at most one page.
func (c *cluster) NamesOf(ctx context.Context, text, namespace string) ([]string, error) {
	kind, err := c.KindOf(text)
	if err != nil {
		return nil, err
	}
	if kind.ClusterScoped {
		namespace = ""
	}
	list, err := c.clients.Metadata.Resource(kind.At()).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: watch.Limit})
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out, nil
}
