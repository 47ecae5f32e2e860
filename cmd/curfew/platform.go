package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/profiles"
)

// addPlatform follows what admission and the controller judge by, on every replica: profiles,
// policies, kinds, runtimes, namespaces.
func (p *process) addPlatform(ctx context.Context) error {
	builtin, err := profiles.All()
	if err != nil {
		return err
	}
	if !p.options.builtinProfiles {
		builtin = profiles.Typed(builtin)
	}
	p.platform.Platform, err = follow.NewPlatform(follow.Options{
		Builtin: builtin, Source: func(resource schema.GroupVersionResource) follow.Source { return p.dynamic.Resource(resource) },
		Client: p.dynamic, Clock: p.clock, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.platform.Namespaces, err = follow.NewNamespaces(ctx, p.mgr.GetCache(), p.mgr.GetAPIReader(), p.clock, p.log)
	if err != nil {
		return err
	}
	return p.mgr.Add(p.platform.Platform)
}
