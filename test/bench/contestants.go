package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// contestant is a controller or client that handles objects that are due.
type contestant struct {
	name string
	// about is how the table calls it.
	about string
	// ends: its process ends by itself when all are handled.
	ends bool
	// window ends the measurement after that time; 0: when all objects are handled.
	window time.Duration
	// start returns when the process will notice each change from now on. The objects will all be due
	// at one instant.
	start func(ctx context.Context, e *environment, h heat) (*process, error)
}

// heat is one run of one contestant.
type heat struct {
	set      jobSet
	due      time.Time
	resource string // what the bare loop calls for
	// perSecond is how many of the set are due in each second from due on; 0: all at once.
	perSecond int
	log       string // where the contestant's output goes
}

// Names of contestants that results are computed from.
const (
	theLimit   = "limit"
	theCurfew  = "curfew"
	theUnbound = "intree_unthrottled"
	theDefault = "intree_default"
)

// Contestants of several benches.
var (
	bareLoop  = contestant{name: theLimit, about: "bare loop of parallel DELETE calls", ends: true, start: startLoop}
	curfew    = contestant{name: theCurfew, about: "Curfew", start: startCurfew}
	unbound   = contestant{name: theUnbound, about: "in-tree TTL controller, unthrottled", start: startInTree(100000, 100000)}
	throttled = contestant{name: theDefault, about: "in-tree TTL controller, defaults",
		// The defaults of --kube-api-qps and --kube-api-burst. All 10,000 would take a quarter of an hour.
		start: startInTree(20, 30), window: 30 * time.Second}
)

func startLoop(ctx context.Context, e *environment, h heat) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return launch(h.log, self, loopCommand, "--kubeconfig", e.state.Kubeconfig, "--prefix", h.set.prefix,
		"--objects", strconv.Itoa(h.set.count), "--resource", h.resource, "--parallel", strconv.Itoa(e.calls), "--at", strconv.FormatInt(h.due.Unix(), 10),
		"--per-second", strconv.Itoa(h.perSecond))
}

// startCurfew starts the controller as an installation would, with a token of its ServiceAccount.
func startCurfew(ctx context.Context, e *environment, h heat) (*process, error) {
	c, err := e.launchCurfew(ctx, h.log, e.curfewConfig)
	if err != nil {
		return nil, err
	}
	return c.process, nil
}

// startInTree starts a second controller manager with the TTL controller alone. Its five workers
// are the default.
func startInTree(qps, burst int) func(context.Context, *environment, heat) (*process, error) {
	return func(ctx context.Context, e *environment, h heat) (*process, error) {
		p, _, err := e.launchInTree(ctx, h.log, qps, burst, nil)
		return p, err
	}
}

// launchInTree starts it, with further flags, and returns its address.
func (e *environment) launchInTree(ctx context.Context, log string, qps, burst int, flags map[string]string) (*process, string, error) {
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	address := addresses[0]
	values := map[string]string{
		"--controllers": "ttl-after-finished-controller", "--secure-port": address[strings.LastIndexByte(address, ':')+1:],
		"--kube-api-qps": strconv.Itoa(qps), "--kube-api-burst": strconv.Itoa(burst),
	}
	maps.Copy(values, flags)
	args := replaceFlags(e.state.Components["kube-controller-manager"].Command, values)
	p, err := launch(log, args[0], args[1:]...)
	if err != nil {
		return nil, "", err
	}
	client, err := e.trusting()
	if err == nil {
		err = p.awaitHealthy(ctx, client, "https://"+address+"/healthz")
	}
	if err != nil {
		p.stop()
		return nil, "", fmt.Errorf("start the in-tree controller: %w; its log is %s", err, log)
	}
	return p, address, nil
}

// replaceFlags returns a command line with other values for some of its flags. Giving them a second
// time is not enough: --controllers adds up, and a second garbage collector would work against the
// contestant.
func replaceFlags(command []string, values map[string]string) []string {
	var out []string
	for _, argument := range command {
		name, _, _ := strings.Cut(argument, "=")
		if _, other := values[name]; !other {
			out = append(out, argument)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return out
}

// logPath is where the output of a process goes.
func (e *environment) logPath(name string) string { return filepath.Join(e.dir, "logs", name+".log") }
