package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"syscall"
)

// Stop ends the cluster's processes, clients before servers, and removes its data. The logs stay.
// Where there is no cluster, it does nothing.
func (c *Cluster) Stop() error {
	unlock, err := lock(c.Dir, c.say)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := findProcesses(c.Dir)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if _, err := Load(c.Dir); absent(err) {
			c.say("no cluster runs in %s", c.Dir)
			return nil
		}
	}
	// Those that ask the API server go together and first: none has to log that it is gone.
	for _, names := range [][]string{{kwok, scheduler, controllerManager}, {apiServer}, {etcd}} {
		if err := end(c.Dir, pick(found, names...), stopPatience); err != nil {
			return err
		}
	}
	if err := end(c.Dir, found, stopPatience); err != nil {
		return err
	}
	if err := wipe(c.Dir); err != nil {
		return err
	}
	c.say("stopped the cluster in %s", c.Dir)
	return nil
}

// pick returns the processes that are one of the named components.
func pick(processes []process, names ...string) []process {
	var picked []process
	for _, p := range processes {
		if slices.Contains(names, p.component) {
			picked = append(picked, p)
		}
	}
	return picked
}

// Kill sends SIGKILL to one component, and returns when it is gone.
func (c *Cluster) Kill(name string) error {
	if err := Known(name); err != nil {
		return err
	}
	unlock, err := lock(c.Dir, c.say)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := findProcesses(c.Dir)
	if err != nil {
		return err
	}
	targets := pick(found, name)
	if len(targets) == 0 {
		return fmt.Errorf("%s does not run in %s", name, c.Dir)
	}
	for _, p := range targets {
		if err := p.signal(c.Dir, syscall.SIGKILL); err != nil {
			return err
		}
	}
	if !gone(c.Dir, targets, stopPatience) {
		return fmt.Errorf("%s outlives SIGKILL by %s, look with `ps`", name, stopPatience)
	}
	return nil
}

// Restart ends one component, if it runs, and starts it with the same ports and data. It returns
// when the component works. If controllers is set, it replaces the option of that name.
func (c *Cluster) Restart(ctx context.Context, bin Binaries, name, controllers string) error {
	if err := Known(name); err != nil {
		return err
	}
	unlock, err := lock(c.Dir, c.say)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := Load(c.Dir)
	if err != nil {
		return err
	}
	if !state.Ready {
		return fmt.Errorf("the cluster in %s was never ready: start it anew", c.Dir)
	}
	found, err := findProcesses(c.Dir)
	if err != nil {
		return err
	}
	if err := end(c.Dir, pick(found, name), stopPatience); err != nil {
		return err
	}
	state.Options.Controllers = cmp.Or(controllers, state.Options.Controllers)
	if err := c.launch(ctx, bin, state, name); err != nil {
		return err
	}
	c.say("restarted %s, pid %d", name, state.Components[name].PID)
	return nil
}
