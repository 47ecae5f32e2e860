package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/feedset"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// definitions and apiServices say which kinds and groups the API server serves; rbac is the version of roles and their bindings.
var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	rbac        = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
)

// newRegistry wires profiles → feeds of their kinds.
func newRegistry(objects dynamic.Interface, compiler *expression.Compiler, feeds *feedset.Set, shared *feed.Options) (*registry.Registry, error) {
	builtin, err := profiles.All()
	if err != nil {
		return nil, err
	}
	return registry.New(registry.Options{
		Builtin: builtin, Typed: feedset.Typed(), Compiler: compiler, Feeds: feeds,
		Profiles: objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles)), Definitions: objects.Resource(definitions),
		Runtime: func(resource schema.GroupVersionResource) follow.Source { return objects.Resource(resource) },
		Clock:   shared.Clock, ServerTime: shared.ServerTime, Log: shared.Log, Registerer: metrics.Registry,
	})
}

// newLabels wires discovery and permissions → feeds of labelled objects.
func newLabels(config *rest.Config, objects dynamic.Interface, kinds *registry.Registry, feeds *feedset.Set, shared *feed.Options, options *options) (*discovery.Labels, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	labels, err := discovery.New(discovery.Options{
		Discover: func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			return clientdiscovery.ServerGroupsAndResourcesWithContext(ctx, clientdiscovery.ToDiscoveryInterfaceWithContext(client.Discovery()))
		},
		Definitions: kinds.Definitions, Propagation: kinds.Propagation, APIServices: objects.Resource(apiServices),
		Identify: func(ctx context.Context) (permission.Identity, error) {
			review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				return permission.Identity{}, err
			}
			return permission.Identity{User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}, nil
		},
		Granter: permission.Reviews{
			Access: client.AuthorizationV1().SelfSubjectAccessReviews(), RulesOf: client.AuthorizationV1().SelfSubjectRulesReviews(),
		},
		RBAC:       func(resource string) follow.Source { return objects.Resource(rbac.WithResource(resource)) },
		Namespaces: options.namespaces, Alias: options.kyvernoLabel, Feeds: feeds,
		Clock: shared.Clock, Log: shared.Log, Registerer: metrics.Registry,
	})
	if err != nil {
		return nil, err
	}
	kinds.OnChange(labels.Again)
	return labels, nil
}
