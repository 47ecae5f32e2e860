package main

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/expiry"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// definitions are what says which kinds the API server serves.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// newRegistry wires profiles → feeds of their kinds.
func newRegistry(config *rest.Config, objects dynamic.Interface, compiler *expression.Compiler, shared feed.Options) (*registry.Registry, error) {
	builtin, err := profiles.All()
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	handles := &handles{of: map[schema.GroupVersionResource]expiry.Kind{}}
	return registry.New(registry.Options{
		Builtin:  builtin,
		Typed:    []schema.GroupKind{policy.JobProfile.Kind.GroupKind(), policy.PodProfile.Kind.GroupKind()},
		Compiler: compiler,
		Profiles: objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles)), Definitions: objects.Resource(definitions),
		Missing: registry.Reviews{Client: authorization.SelfSubjectAccessReviews()}.Missing,
		Start: func(profile *expression.Profile) (registry.Running, error) {
			one, err := feed.New(feed.Objects(objects, profile), shared)
			if err != nil {
				return nil, err
			}
			handles.set(profile.Kind.GroupVersion().WithResource(profile.Resource), one.Handle())
			return one, nil
		},
		Forget: func(resource schema.GroupVersionResource) {
			if kind, ok := handles.get(resource); ok {
				shared.Engine.ForgetKind(kind)
			}
		},
		Runtime: func(resource schema.GroupVersionResource) registry.Source { return objects.Resource(resource) },
		Clock:   shared.Clock, Log: shared.Log, Registerer: metrics.Registry,
	})
}

// handles are the engine's handles of the kinds that have been fed.
type handles struct {
	mu sync.Mutex
	of map[schema.GroupVersionResource]expiry.Kind
}

func (h *handles) set(resource schema.GroupVersionResource, kind expiry.Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[resource] = kind
}

func (h *handles) get(resource schema.GroupVersionResource) (expiry.Kind, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kind, ok := h.of[resource]
	return kind, ok
}
