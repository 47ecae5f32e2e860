package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/registry"
)

// apiServices tell which groups are served; rbacVersion is that of roles and their bindings.
var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	rbacVersion = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
)

// newLabels wires discovery and permissions → feeds of labelled objects.
func newLabels(config *rest.Config, objects dynamic.Interface, kinds *registry.Registry, shared feed.Options, options *options) (*registry.Labels, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	handles := &handles[registry.Target]{of: map[registry.Target][]engine.Kind{}}
	labels, err := registry.NewLabels(registry.LabelOptions{
		Discover: func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			return discovery.ServerGroupsAndResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(client.Discovery()))
		},
		Definitions: kinds.Definitions,
		Propagation: kinds.Propagation,
		APIServices: objects.Resource(apiServices),
		Identify: func(ctx context.Context) (registry.Identity, error) {
			review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				return registry.Identity{}, err
			}
			return registry.Identity{User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}, nil
		},
		Granter: registry.Reviews{
			Client: client.AuthorizationV1().SelfSubjectAccessReviews(), RulesClient: client.AuthorizationV1().SelfSubjectRulesReviews(),
		},
		RBAC:       func(resource string) follow.Source { return objects.Resource(rbacVersion.WithResource(resource)) },
		Namespaces: options.namespaces, Alias: options.kyvernoLabel,
		Start: func(target registry.Target, forbidden func()) (registry.Running, error) {
			own := shared
			own.Forbidden, own.RuntimeOf, own.PropagationOf = forbidden, kinds.RuntimeOf, kinds.Propagation
			own.RelistEvery = staggered(shared.RelistEvery, target.Kind.String())
			one, err := feed.New(feed.Labelled(partial, objects, feed.LabelledKind{
				Kind: target.Kind, Resource: target.Resource, ClusterScoped: target.ClusterScoped,
				Protobuf: kubernetesscheme.Scheme.Recognizes(target.Kind), Aggregated: target.Aggregated,
				Namespace: target.Namespace, Alias: target.Alias, Propagation: target.Propagation,
			}), own)
			if err != nil {
				return nil, err
			}
			handles.set(target, one.Handles())
			return one, nil
		},
		Forget: func(target registry.Target) {
			for _, kind := range handles.take(target) {
				shared.Engine.ForgetKind(kind)
			}
		},
		Clock: shared.Clock, Log: shared.Log, Registerer: metrics.Registry,
	})
	if err != nil {
		return nil, err
	}
	kinds.OnChange(labels.Again)
	kinds.OnProfile(func(kind schema.GroupKind) {
		labels.RejudgeKinds(func(other schema.GroupKind) bool { return other == kind })
	})
	return labels, nil
}

// staggered lengthens an interval by up to a fifth, by the kind's name: a hundred kinds are not listed anew in the same second.
func staggered(every time.Duration, name string) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // it never fails
	return every + time.Duration(float64(every)/5*float64(hash.Sum32())/(1<<32))
}
