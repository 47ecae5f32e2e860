package local

import (
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

// Kill sends a signal to one component and, if that ends processes at all, returns when it is gone.
func (c *Cluster) Kill(name string, sig syscall.Signal) error {
	if err := known(name); err != nil {
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
		if err := p.signal(c.Dir, sig); err != nil {
			return err
		}
	}
	if sig != syscall.SIGKILL && sig != syscall.SIGTERM && sig != syscall.SIGINT {
		return nil
	}
	if !gone(c.Dir, targets, stopPatience) {
		return fmt.Errorf("%s runs %s after %s, send it SIGKILL (--signal 9)", name, stopPatience, sig)
	}
	return nil
}

// Change says what a Restart is to change about the options. Nil leaves as it is.
type Change struct {
	InTreeTTL   *bool
	Controllers *string
	// Arguments, if set, replace the further arguments of the component.
	Arguments *[]string
}

// Restart ends one component, if it runs, and starts it with the same ports and data. It returns
// when the component works.
func (c *Cluster) Restart(ctx context.Context, bin Binaries, name string, change Change) error {
	if err := known(name); err != nil {
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
	change.apply(&state.Options, name)
	if err := c.launch(ctx, bin, state, name); err != nil {
		return err
	}
	c.say("restarted %s, pid %d", name, state.Components[name].PID)
	return nil
}

func (change Change) apply(options *Options, name string) {
	if change.InTreeTTL != nil {
		options.InTreeTTL = *change.InTreeTTL
	}
	if change.Controllers != nil {
		options.Controllers = *change.Controllers
	}
	if change.Arguments == nil {
		return
	}
	arguments := make(map[string][]string, len(options.Arguments)+1)
	for key, value := range options.Arguments {
		arguments[key] = value
	}
	arguments[name] = *change.Arguments
	if len(*change.Arguments) == 0 {
		delete(arguments, name)
	}
	options.Arguments = arguments
}

// Status is what runs of one component.
type Status struct {
	Name    string
	Running bool
	PID     int
	RSS     int64 // resident memory in bytes
	Address string
	Log     string
	// Problem is why it is not healthy, or empty.
	Problem string
}

// Status looks at every component, asks each for its health, and returns the state with it. It
// takes no lock and changes nothing.
func (c *Cluster) Status(ctx context.Context) (*State, []Status, error) {
	state, err := Load(c.Dir)
	if err != nil {
		return nil, nil, err
	}
	found, err := findProcesses(c.Dir)
	if err != nil {
		return nil, nil, err
	}
	client, err := newClient(state)
	if err != nil {
		return nil, nil, err
	}
	var statuses []Status
	for _, name := range ComponentNames() {
		component := state.Components[name]
		s := Status{Name: name, Address: fmt.Sprintf("127.0.0.1:%d", component.Port), Log: component.Log, Problem: "not running"}
		if running := pick(found, name); len(running) > 0 {
			s.Running, s.PID, s.RSS, s.Problem = true, running[0].pid, running[0].rss, ""
			if err := client.healthy(ctx, name); err != nil {
				s.Problem = err.Error()
			}
		}
		statuses = append(statuses, s)
	}
	return state, statuses, nil
}
