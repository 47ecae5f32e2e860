package main

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// definitions are what says which kinds the API server serves.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// newRegistry wires profiles → feeds of their kinds.
func newRegistry(config *rest.Config, objects dynamic.Interface, compiler *expression.Compiler, stopper *stop.Stopper, shared feed.Options) (*registry.Registry, error) {
	builtin, err := profiles.All()
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	reviews := registry.Reviews{Client: authorization.SelfSubjectAccessReviews()}
	handles := &handles[schema.GroupVersionResource]{of: map[schema.GroupVersionResource][]engine.Kind{}}
	return registry.New(registry.Options{
		Builtin:  builtin,
		Typed:    []schema.GroupKind{policy.JobProfile.Kind.GroupKind(), policy.PodProfile.Kind.GroupKind()},
		Compiler: compiler,
		Profiles: objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles)), Definitions: objects.Resource(definitions),
		Missing: reviews.Missing, Lacks: reviews.Lacks,
		Start: func(profile *expression.Profile) (registry.Running, error) {
			return newFeedOf(objects, profile, stopper, shared, handles)
		},
		Forget: func(resource schema.GroupVersionResource) {
			for _, kind := range handles.take(resource) {
				shared.Engine.ForgetKind(kind)
			}
		},
		Hold: func(resource schema.GroupVersionResource, on bool) {
			for _, kind := range handles.get(resource) {
				shared.Engine.Hold(kind, on)
			}
		},
		Runtime: func(resource schema.GroupVersionResource) follow.Source { return objects.Resource(resource) },
		Clock:   shared.Clock, ServerTime: shared.ServerTime, Log: shared.Log, Registerer: metrics.Registry,
	})
}

// newFeedOf makes the feed of one kind: for its TTLs, and where Curfew enforces deadlines on it, for those.
func newFeedOf(objects dynamic.Interface, profile *expression.Profile, stopper *stop.Stopper, shared feed.Options, handles *handles[schema.GroupVersionResource]) (registry.Running, error) {
	one, err := feed.New(feed.Objects(objects, profile, stopper), shared)
	if err != nil {
		return nil, err
	}
	resource := profile.Kind.GroupVersion().WithResource(profile.Resource)
	one.TakeOver(handles.get(resource))
	handles.set(resource, one.Handles())
	return one, nil
}

// handles are the engine's handles of what has been fed.
type handles[K comparable] struct {
	mu sync.Mutex
	of map[K][]engine.Kind
}

func (h *handles[K]) set(key K, kinds []engine.Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[key] = kinds
}

// take answers with those of a feed that has ended for good, and forgets them.
func (h *handles[K]) take(key K) []engine.Kind {
	h.mu.Lock()
	defer h.mu.Unlock()
	kinds := h.of[key]
	delete(h.of, key)
	return kinds
}

func (h *handles[K]) get(key K) []engine.Kind {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[key]
}
