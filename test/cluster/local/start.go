package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Cluster is the control plane in one directory.
type Cluster struct {
	// Dir is the cluster's directory, absolute. Several clusters run side by side, each in its own.
	Dir string
	// Out is where it says what it does.
	Out io.Writer
}

const (
	// readyPatience is no measure of speed: only what hangs takes as long.
	readyPatience = 10 * time.Minute
	stopPatience  = 20 * time.Second
	// A port may be taken between our look and the component's; three times in a row means something
	// else.
	portAttempts = 3
)

func (c *Cluster) say(format string, args ...any) { fmt.Fprintf(c.Out, format+"\n", args...) }

// Start brings the cluster up and returns when it is ready. One that runs with the same options is
// left alone; components of it that are gone are started again with the same ports and data. Start
// first removes a cluster whose start was interrupted or whose components have all ended. On an
// error nothing of the cluster is left but its logs.
func (c *Cluster) Start(ctx context.Context, bin Binaries, options Options) (*State, error) {
	unlock, err := lock(c.Dir, c.say)
	if err != nil {
		return nil, err
	}
	defer unlock()
	found, err := findProcesses(c.Dir)
	if err != nil {
		return nil, err
	}
	state, err := Load(c.Dir)
	if err == nil && state.Ready && state.Dir == c.Dir && len(found) > 0 {
		return c.resume(ctx, bin, state, options, found)
	}
	if err == nil || !absent(err) || len(found) > 0 {
		c.say("clearing away what an earlier cluster left in %s", c.Dir)
	}
	for attempt := 1; ; attempt++ {
		state, err = c.fresh(ctx, bin, options)
		if err == nil {
			return state, nil
		}
		if clearing := c.clear(); clearing != nil {
			return nil, errors.Join(err, clearing)
		}
		if attempt == portAttempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
		c.say("a port was taken by another process meanwhile, once more with others")
	}
}

// resume is a Start of a cluster that runs.
func (c *Cluster) resume(ctx context.Context, bin Binaries, state *State, options Options, found []process) (*State, error) {
	if state.Options.String() != options.String() {
		return nil, fmt.Errorf("the cluster in %s runs with the options %s, asked for was %s: stop it first", c.Dir, state.Options, options)
	}
	if state.Versions != bin.Versions {
		return nil, fmt.Errorf("the cluster in %s runs %+v, this module pins %+v: stop it first", c.Dir, state.Versions, bin.Versions)
	}
	missing := 0
	for _, name := range ComponentNames() {
		if len(pick(found, name)) > 0 {
			continue
		}
		missing++
		c.say("%s is gone, starting it again", name)
		if err := c.launch(ctx, bin, state, name); err != nil {
			return nil, fmt.Errorf("%w\nthe cluster's data may be damaged: stop it, then start it anew", err)
		}
	}
	client, err := newClient(state)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, "the cluster to be usable", readyPatience, nil, client.usable); err != nil {
		return nil, fmt.Errorf("the cluster in %s runs but does not work, stop it, then start it anew: %w", c.Dir, err)
	}
	if missing == 0 {
		c.say("already running: %s", state.Server)
	}
	return state, nil
}

// fresh starts a cluster from nothing.
func (c *Cluster) fresh(ctx context.Context, bin Binaries, options Options) (*State, error) {
	if err := c.clear(); err != nil {
		return nil, err
	}
	logs := filepath.Join(c.Dir, "logs")
	if err := os.RemoveAll(logs); err != nil {
		return nil, fmt.Errorf("remove old logs: %w", err)
	}
	for _, dir := range []string{logs, filepath.Join(c.Dir, "data")} {
		// etcd insists that no other user may read its data.
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make %s: %w", dir, err)
		}
	}
	now := time.Now()
	state := &State{Dir: c.Dir, Versions: bin.Versions, Options: options, Kubectl: bin.Kubectl()}
	if err := assignPorts(state); err != nil {
		return nil, err
	}
	if err := prepare(state, now); err != nil {
		return nil, err
	}
	// Before the first process, so that a crash from here on leaves a file that says "not ready".
	if err := state.save(); err != nil {
		return nil, err
	}
	for _, name := range []string{etcd, apiServer} {
		if err := c.launch(ctx, bin, state, name); err != nil {
			return nil, err
		}
	}
	client, err := newClient(state)
	if err != nil {
		return nil, err
	}
	if _, err := client.do(ctx, http.MethodPost, state.Server+"/api/v1/nodes", node); err != nil {
		return nil, fmt.Errorf("create the Node: %w", err)
	}
	// The rest does not depend on one another.
	rest := []string{controllerManager, scheduler, kwok}
	ended := make(chan error, len(rest))
	for _, name := range rest {
		if err := c.spawn(bin, state, name, ended); err != nil {
			return nil, err
		}
	}
	for _, name := range rest {
		if err := c.awaitHealthy(ctx, client, state, name, ended); err != nil {
			return nil, err
		}
	}
	if err := await(ctx, "a ready Node and a default ServiceAccount", readyPatience, ended, client.usable); err != nil {
		return nil, err
	}
	state.Ready = true
	if err := state.save(); err != nil {
		return nil, err
	}
	c.say("ready after %s: %s", time.Since(now).Round(100*time.Millisecond), state.Server)
	return state, nil
}

// launch starts one component and waits until it works.
func (c *Cluster) launch(ctx context.Context, bin Binaries, state *State, name string) error {
	client, err := newClient(state)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	if err := c.spawn(bin, state, name, ended); err != nil {
		return err
	}
	return c.awaitHealthy(ctx, client, state, name, ended)
}

func (c *Cluster) awaitHealthy(ctx context.Context, client *client, state *State, name string, ended <-chan error) error {
	err := await(ctx, name, readyPatience, ended, func(ctx context.Context) error { return client.healthy(ctx, name) })
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*endedError)) {
		return fmt.Errorf("%w\nthe end of %s:\n%s", err, state.Components[name].Log, tail(state.Components[name].Log))
	}
	return err
}

// endedError is a component that ended when it should not have.
type endedError struct{ name, how, log string }

func (e *endedError) Error() string {
	return fmt.Sprintf("%s ended: %s\nthe end of %s:\n%s", e.name, e.how, e.log, tail(e.log))
}

// spawn starts the process of a component, in a session of its own so that it survives this program
// and its terminal, and notes it in the state. Its end, while this program lives, is told to ended.
func (c *Cluster) spawn(bin Binaries, state *State, name string, ended chan<- error) error {
	component := state.Components[name]
	component.Command = state.command(bin, name)
	log, err := os.OpenFile(component.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(component.Command[0], component.Command[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(componentEnvironment(os.Environ()), dirMark+"="+c.Dir, componentMark+"="+name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	component.PID = cmd.Process.Pid
	state.Components[name] = component
	go func() {
		err := cmd.Wait()
		how := "exit status 0"
		if err != nil {
			how = err.Error()
		}
		ended <- &endedError{name: name, how: how, log: component.Log}
	}()
	return state.save()
}

// componentEnvironment keeps settings of the caller away from the components: etcd takes flags from
// ETCD_*, clients take a cluster from KUBECONFIG and a proxy, which does not reach our loopback,
// from *_PROXY.
func componentEnvironment(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		upper := strings.ToUpper(name)
		if strings.HasPrefix(upper, "ETCD_") || strings.HasPrefix(upper, "KUBE") || strings.HasPrefix(upper, "KWOK_") ||
			strings.HasSuffix(upper, "_PROXY") || name == dirMark || name == componentMark {
			continue
		}
		kept = append(kept, variable)
	}
	return kept
}

// clear ends every process of the cluster and removes its data.
func (c *Cluster) clear() error {
	found, err := findProcesses(c.Dir)
	if err != nil {
		return err
	}
	// What has failed or was cut short has nothing to write down in peace.
	if err := end(c.Dir, found, time.Second); err != nil {
		return err
	}
	return wipe(c.Dir)
}
