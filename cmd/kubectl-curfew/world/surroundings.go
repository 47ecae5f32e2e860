package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Explain gathers what surrounds an object and explains it at the instant now. The object may be metadata alone where its kind has no
// profile.
func (w *World) Explain(ctx context.Context, kind Kind, object map[string]any, now time.Time) (*policy.Explanation, error) {
	facts := policy.FactsOfObject(kind.Profile, object)
	scope, err := w.scopeOf(ctx, kind, facts, object)
	if err != nil {
		return nil, err
	}
	return policy.Explain(facts, scope, policy.Question{Now: now, Alias: w.Controller.Alias}), nil
}

func (w *World) scopeOf(ctx context.Context, kind Kind, facts *policy.Facts, object map[string]any) (*policy.Scope, error) {
	var namespace *policy.NamespacePolicy
	if facts.Namespace != "" {
		var err error
		if namespace, err = w.namespace(ctx, facts.Namespace); err != nil {
			return nil, err
		}
	}
	scope, err := w.platform.Scope(ctx, facts, object, namespace, w.runtime, func(err error) {
		w.note("%s; what it might say of an object keeps that", err)
	})
	if err != nil {
		return nil, err
	}
	if facts.IsNamespace() {
		// A Namespace that goes takes along all that lies in it, so that its own mode holds for it.
		scope.Namespace = &policy.NamespacePolicy{Name: facts.Name, Mode: policy.ParseNamespace(facts.Name, facts.Annotations, nil).Mode}
	}
	return scope, nil
}

// namespace reads what a namespace says, once.
func (w *World) namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	w.mu.Lock()
	known, ok := w.namespaces[name]
	w.mu.Unlock()
	if ok {
		return known, nil
	}
	object, err := w.clients.Metadata.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
	var out *policy.NamespacePolicy
	switch {
	case apierrors.IsForbidden(err):
		w.note("you may not get namespace %q: its defaults, bounds and mode are not known", name)
		out = policy.ParseNamespace(name, nil, nil)
	case apierrors.IsNotFound(err):
		out = policy.ParseNamespace(name, nil, nil)
	case err != nil:
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	default:
		out = policy.NamespaceOf(&object.ObjectMeta)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces[name] = out
	return out, nil
}

type runtimeAnswer struct {
	object map[string]any
	err    error
}

// runtime implements platform.RuntimeReader; each is read once.
func (w *World) runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := reference.Kind.GroupKind().String() + " " + reference.String()
	w.mu.Lock()
	known, ok := w.runtimes[key]
	w.mu.Unlock()
	if ok {
		return known.object, known.err
	}
	at := reference.Kind.GroupVersion().WithResource(reference.Resource)
	read, err := w.clients.Objects.Resource(at).Namespace(reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
	var out runtimeAnswer
	switch {
	case apierrors.IsForbidden(err):
		w.note("you may not get %s: what it says of TTLs is not known", reference)
		out.err = platform.ErrRuntimeNotKnown
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
	case err != nil:
		return nil, err
	default:
		out.object = read.Object
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runtimes[key] = out
	return out.object, out.err
}

// ErrNotServed is what cannot go because its kind cannot: it is not served, or lacks list, watch or delete.
var ErrNotServed = errors.New("its kind can never go: the API server does not list, watch and delete it")
