package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/profiles"
)

// addPlatform follows, on every replica, the objects by which admission and the controller judge:
// profiles, policies, kinds, runtimes, namespaces.
func (p *process) addPlatform(ctx context.Context) error {
	builtin, err := profiles.All()
	if err != nil {
		return err
	}
	if !p.options.builtinProfiles {
		builtin = profiles.Typed(builtin)
	}
	source := func(resource schema.GroupVersionResource) follow.Source { return p.dynamic.Resource(resource) }
	if p.options.only() {
		files, err := p.files(ctx)
		if err != nil {
			return err
		}
		source = files.Source
	}
	p.platform.Platform, err = follow.NewPlatform(follow.Options{
		Builtin: builtin, Source: source, Client: p.dynamic, Clock: p.clock, Log: p.log,
	})
	if err != nil {
		return err
	}
	if p.options.only() {
		poll := follow.NewPoll(p.options.onlyNamespaces, p.mgr.GetAPIReader(), p.clock, p.log)
		p.platform.Namespaces, p.fresh = poll.Namespaces, poll.Fresh()
		return errors.Join(p.mgr.Add(poll), p.mgr.Add(p.platform.Platform))
	}
	p.platform.Namespaces, err = follow.NewNamespaces(ctx, p.mgr.GetCache(), p.mgr.GetAPIReader(), p.clock, p.log)
	if err != nil {
		return err
	}
	return p.mgr.Add(p.platform.Platform)
}
