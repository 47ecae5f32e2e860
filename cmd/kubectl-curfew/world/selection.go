package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
}

// Selected is one selected object.
type Selected struct {
	Kind   Kind
	Object map[string]any
}

// KindOf finds a kind by any of its names: jobs, job, Job, jobs.batch, deploy.
func (w *World) KindOf(text string) (Kind, error) {
	if _, _, err := w.discover(); err != nil {
		return Kind{}, err
	}
	mapping, err := mappingOf(w.mapper, text)
	if meta.IsNoMatchError(err) {
		return Kind{}, fmt.Errorf("the server has no kind %q: kubectl api-resources lists those that it has", text)
	}
	if err != nil {
		return Kind{}, fmt.Errorf("kind %q: %w", text, err)
	}
	kind, ok, err := w.Kind(mapping.Resource.GroupResource())
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", text, ErrNotServed)
	}
	return kind, err
}

func mappingOf(mapper meta.RESTMapper, text string) (*meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(text)
	var kind schema.GroupVersionKind
	var err error
	if full != nil {
		kind, err = mapper.KindFor(*full)
	}
	if full == nil || err != nil {
		kind, err = mapper.KindFor(resource.WithVersion(""))
	}
	if err == nil {
		return mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	fullKind, groupKind := schema.ParseKindArg(text)
	if fullKind != nil {
		if mapping, err := mapper.RESTMapping(fullKind.GroupKind(), fullKind.Version); err == nil {
			return mapping, nil
		}
	}
	return mapper.RESTMapping(groupKind)
}

// Validate finds the errors that can be found without a cluster.
func (s Selection) Validate() error {
	_, err := s.named()
	return err
}

// Select reads the selected objects, each once, in the order of the arguments.
func (w *World) Select(ctx context.Context, s Selection) ([]Selected, error) {
	names, err := s.named()
	if err != nil {
		return nil, err
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
				out = append(out, Selected{kind, object.Object})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
	}
	return each(out), nil
}

// each drops objects that were selected twice, for example by two names of the kind: extending one
// twice would be wrong.
func each(all []Selected) []Selected {
	seen := map[types.UID]bool{}
	return slices.DeleteFunc(all, func(one Selected) bool {
		uid := uidOf(one.Object)
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
		if namespace == "" {
			return Selected{}, fmt.Errorf("%s does not exist", kind.Name(name))
		}
		return Selected{}, fmt.Errorf("%s does not exist in namespace %q", kind.Name(name), namespace)
	}
	if err != nil {
		return Selected{}, err
	}
	return Selected{kind, object.Object}, nil
}

// named is one argument: a kind, and a name unless there is a selector or All.
type named struct{ kind, name string }

func (s Selection) named() ([]named, error) {
	if len(s.Args) == 0 {
		return nil, errors.New("say which: KIND/NAME, KIND NAME, or KIND with -l or --all")
	}
	var out []named
	slashed := strings.Contains(s.Args[0], "/")
	for _, arg := range s.Args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case ok != slashed:
			return nil, fmt.Errorf("%q: give either KIND/NAME throughout, or KIND NAME", arg)
		case ok && (kind == "" || name == "" || strings.Contains(name, "/")):
			return nil, fmt.Errorf("%q: give KIND/NAME, and the namespace by -n", arg)
		case ok:
			out = append(out, named{kind, name})
		}
	}
	many := s.Selector != "" || s.All
	switch {
	case slashed && many, len(s.Args) > 1 && many:
		return nil, errors.New("give names, or -l or --all, but not both")
	case (slashed || len(s.Args) > 1) && s.Everywhere:
		return nil, errors.New("a name is one in a namespace: give -n, and not -A")
	case slashed:
		return out, nil
	}
	kinds := strings.Split(s.Args[0], ",")
	switch {
	case len(s.Args) == 1 && !many:
		return nil, fmt.Errorf("%q says no object: give %[1]s/NAME, or -l or --all", s.Args[0])
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
