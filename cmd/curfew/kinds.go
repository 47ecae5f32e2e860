package main

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/feedset"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
)

// apiServices say which groups the API server serves; rbac is the version of roles and their
// bindings.
var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	rbac        = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
)

// newProfiles wires profiles → feeds of their kinds.
func newProfiles(c *controller) (*discovery.Profiles, error) {
	watched := func(spec *feedset.Spec) bool { return len(c.options.judges(profileOf(spec))) > 0 }
	return discovery.NewProfiles(discovery.ProfilesOptions{
		Typed: feedset.Typed(), Namespaces: c.options.onlyNamespaces, Watched: watched, Deadlines: c.options.on(policy.TriggerDeadline),
		Platform: c.platform.Platform, Feeds: c.feeds, Make: c.maker.withProfile, Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
}

// newLabels wires discovery and permissions → feeds of labelled objects.
func newLabels(c *controller) (*discovery.Labels, error) {
	services := follow.Source(c.objects.Resource(apiServices))
	roles := func(resource string) follow.Source { return c.objects.Resource(rbac.WithResource(resource)) }
	namespaces := c.options.namespaces
	if c.options.only() { // Changes are noticed by asking again.
		none := follow.Files{Clock: c.clock}
		services, roles = none.Source(apiServices), func(resource string) follow.Source { return none.Source(rbac.WithResource(resource)) }
		namespaces = c.options.onlyNamespaces
	}
	return discovery.New(discovery.Options{
		Discover: func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			return clientdiscovery.ServerGroupsAndResourcesWithContext(ctx, clientdiscovery.ToDiscoveryInterfaceWithContext(c.typed.Discovery()))
		},
		Definitions: func() (map[schema.GroupResource]discovery.Kind, error) { return discovery.Defined(c.platform.Platform) },
		Propagation: c.platform.Platform.Propagation, APIServices: services,
		Identify: c.identify, Granter: c.reviews(),
		RBAC: roles, Namespaces: namespaces, Only: c.options.only(), Alias: c.options.kyvernoLabel, Feeds: c.feeds, Make: c.maker.labelled,
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
}

// identify asks the API server who Curfew is.
func (p *process) identify(ctx context.Context) (permission.Identity, error) {
	review, err := p.typed.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return permission.Identity{}, err
	}
	return permission.Identity{User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}, nil
}

// reviews ask the API server what Curfew may do.
func (p *process) reviews() permission.Reviews {
	client := p.typed.AuthorizationV1()
	return permission.Reviews{Access: client.SelfSubjectAccessReviews(), RulesOf: client.SelfSubjectRulesReviews()}
}
