package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/cleanup"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// registration is one trigger: why objects become due, what is done then, and what finds them.
type registration struct {
	// name is what --enable, metrics and logs call it.
	name policy.Trigger
	// action says what is done with an object that is due. Nil where nothing ever is.
	action func(c *controller) (engine.Trigger, error)
	// judge judges objects of kinds with a profile, of which one watch serves all triggers. Nil where
	// find is all.
	judge feed.TriggerOf
	// find finds objects until ctx is done: by feeds of its own, applied to c.feeds, or by runs that
	// call c.engine.Submit. Nil where judge is all.
	find func(ctx context.Context, c *controller) error
}

// registered are all triggers, a line each. --enable chooses among them.
var registered = []registration{
	{name: policy.TriggerTTL, action: deletes, judge: feed.TTLs},
	{name: policy.TriggerLabel, action: deletes, find: labelled},
	{name: policy.TriggerCleanup, action: cleans, find: scheduled},
	{name: policy.TriggerDeadline, action: stops, judge: feed.Deadlines},
	{name: policy.TriggerTally}, // See count: it has to run while it is switched off, too.
}

// deletes is the action of triggers that delete the object.
func deletes(c *controller) (engine.Trigger, error) {
	return engine.Trigger{Action: c.deletion, Deletes: true}, nil
}

// stops is the action of triggers that stop the object.
func stops(c *controller) (engine.Trigger, error) {
	partial, err := metadata.NewForConfig(c.watches)
	if err != nil {
		return engine.Trigger{}, fmt.Errorf("client of the API server: %w", err)
	}
	action, err := stop.New(stop.Options{
		Objects: c.objects, Metadata: partial, Delete: c.deletion, Clock: c.clock, ServerTime: c.serverTime, Log: c.log, Registerer: metrics.Registry,
		Marked:  c.notices.failed,
		Profile: c.platform.Platform.Profile,
	})
	return engine.Trigger{Action: action, Payload: true}, err
}

// labelled finds the objects of any kind that carry a TTL label.
func labelled(ctx context.Context, c *controller) error { return c.labels.Run(ctx) }

// cleans is the action of cleanup policies: it deletes the object with the rights of their account.
func cleans(*controller) (engine.Trigger, error) {
	return engine.Trigger{Action: cleanup.Action{}, Deletes: true, Priority: action.Background}, nil
}

// scheduled runs the cleanup policies that are due.
func scheduled(ctx context.Context, c *controller) error { return c.cleanup.Run(ctx) }

// triggerNames are the names of all triggers.
func triggerNames() []string {
	var out []string
	for _, one := range registered {
		out = append(out, string(one.name))
	}
	return out
}

func (o *options) validateEnable() error {
	all := strings.Join(triggerNames(), ", ")
	if len(o.enable) == 0 {
		return fmt.Errorf("--enable=: name at least one of %s; with --dry-run nothing is deleted either", all)
	}
	for _, name := range o.enable {
		if !slices.Contains(triggerNames(), name) {
			return fmt.Errorf("--enable=%s: the triggers are %s", name, all)
		}
	}
	return nil
}

// on reports whether a trigger is switched on.
func (o *options) on(name policy.Trigger) bool { return slices.Contains(o.enable, string(name)) }

// triggers are those that are switched on.
func (o *options) triggers() []registration {
	return slices.DeleteFunc(slices.Clone(registered), func(r registration) bool { return !o.on(r.name) })
}

// off are the triggers that are switched off.
func (o *options) off() []policy.Trigger {
	var out []policy.Trigger
	for _, one := range registered {
		if !o.on(one.name) {
			out = append(out, one.name)
		}
	}
	return out
}

// actions are the triggers that are switched on, as the engine takes them.
func (c *controller) actions() ([]engine.Trigger, error) {
	var out []engine.Trigger
	for _, one := range c.options.triggers() {
		if one.action == nil {
			continue
		}
		trigger, err := one.action(c)
		if err != nil {
			return nil, fmt.Errorf("trigger %s: %w", one.name, err)
		}
		trigger.Name = string(one.name)
		out = append(out, trigger)
	}
	return out, nil
}

// judges are the triggers that are switched on, as they apply to a kind with a profile.
func (o *options) judges(profile *expression.Profile) []*feed.Trigger {
	var out []*feed.Trigger
	for _, one := range o.triggers() {
		if one.judge == nil {
			continue
		}
		if trigger := one.judge(profile); trigger != nil {
			out = append(out, trigger)
		}
	}
	return out
}

// finders run what finds objects by itself, for the triggers that are switched on.
func (c *controller) finders() []func(context.Context) error {
	var out []func(context.Context) error
	for _, one := range c.options.triggers() {
		if one.find != nil {
			out = append(out, func(ctx context.Context) error { return one.find(ctx, c) })
		}
	}
	return out
}
