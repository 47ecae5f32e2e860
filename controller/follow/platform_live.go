package follow

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

// unserved reports whether no CustomResourceDefinition serves a resource that the API server
// answered with 404. While the definitions are watched, the copy here answers. If it shows one that
// serves the resource, or the watch is down, the API server is asked.
func (p *Platform) unserved(definitions Source, of schema.GroupVersionResource) func(context.Context) (bool, error) {
	name, ask := of.GroupResource().String(), unserved(definitions, of)
	return func(ctx context.Context) (bool, error) {
		if p.definitions.following.Load() {
			known, ok := p.definitions.Get(name)
			if _, served := known.Schemas[of.Version]; !ok || !served {
				return true, nil
			}
		}
		return ask(ctx)
	}
}

// readRules lists LifecyclePolicies and KindProfiles, both at once.
func (p *Platform) readRules(ctx context.Context) (*platform.Snapshot, error) {
	var group sync.WaitGroup
	var policies []*expression.Policy
	var errPolicies error
	group.Go(func() { policies, errPolicies = p.Policies.Live(ctx) })
	profiles, err := p.Profiles.Live(ctx)
	group.Wait()
	if err := errors.Join(errPolicies, err); err != nil {
		return nil, err
	}
	return p.store.Snapshot().WithProfiles(profiles).WithPolicies(policies), nil
}

// unserved reports whether no CustomResourceDefinition serves a resource.
func unserved(definitions Source, of schema.GroupVersionResource) func(context.Context) (bool, error) {
	name := of.GroupResource().String()
	return func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
		found, err := definitions.List(ctx, options)
		if err != nil {
			return false, err
		}
		for i := range found.Items {
			if _, served := readDefinition(&found.Items[i]).Schemas[of.Version]; served && found.Items[i].GetName() == name {
				return false, nil
			}
		}
		return true, nil
	}
}
