package lint

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// Scopes gathers what surrounds an object in a cluster, as webhook.Scopes does.
type Scopes interface {
	// ScopeOf returns the scope of an object. inUse is false here: nothing is known of what the API server selected by.
	ScopeOf(ctx context.Context, facts *policy.Facts, object map[string]any, inUse bool) (*policy.Scope, error)
}

// world is what objects are judged by: what the options bring, and over it what the documents say.
type world struct {
	options    *Options
	profiles   policy.Profiles
	namespaces map[string]*policy.NamespacePolicy
}

// lesson lets the world learn from one document that speaks about others.
type lesson func(*world, *Document)

// lessons are those kinds that speak about others, one a file. They are taught before any object is judged, so that the order
// of documents does not matter.
var lessons = map[schema.GroupKind]lesson{
	namespaceKind: learnNamespace,
}

func learn(options *Options, documents []*Document) *world {
	w := &world{options: options, profiles: options.Profiles, namespaces: map[string]*policy.NamespacePolicy{}}
	for _, document := range documents {
		if teach, ok := lessons[document.Kind().GroupKind()]; ok {
			teach(w, document)
		}
	}
	return w
}

// scopeOf is the scope in which an object of the documents would be created. A Namespace among the documents speaks for
// itself, since applying them would change the one in the cluster. known is false where the cluster does not have the namespace
// and neither do the documents.
func (w *world) scopeOf(ctx context.Context, facts *policy.Facts, object map[string]any) (scope *policy.Scope, known bool, err error) {
	posted := w.namespaces[facts.Namespace]
	scope, known, err = w.clusterScope(ctx, facts, object)
	if err != nil {
		return nil, false, err
	}
	if posted != nil {
		scope.Namespace, known = posted, true
	}
	scope.Creating = true
	return scope, known, nil
}

func (w *world) clusterScope(ctx context.Context, facts *policy.Facts, object map[string]any) (scope *policy.Scope, known bool, err error) {
	if w.options.Scopes == nil {
		return &policy.Scope{AnnotationsOnly: w.options.AnnotationsOnly}, true, nil
	}
	scope, err = w.options.Scopes.ScopeOf(ctx, facts, object, false)
	if apierrors.IsNotFound(err) {
		return &policy.Scope{AnnotationsOnly: w.options.AnnotationsOnly}, false, nil
	}
	return scope, true, err
}
