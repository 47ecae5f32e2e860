package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// outcome has the numbers that are compared between two runs, one of them with attackers.
type outcome struct {
	p99  time.Duration // of the lateness of honest objects while nothing is broken
	peak int64         // the most memory that a controller took, in bytes
}

// leastP99 is up to which lateness no run is compared: chance decides about less.
const leastP99 = 150 * time.Millisecond

// compare is an error if the attackers cost the others more than they may.
func compare(without, with outcome, memory int64) error {
	var errs []error
	if most := max(leastP99, 2*without.p99); with.p99 > most {
		errs = append(errs, fmt.Errorf("the p99 of the lateness is %s with attackers and %s without: at most %s is allowed", with.p99, without.p99, most))
	}
	if with.peak > memory {
		errs = append(errs, fmt.Errorf("a controller took %d MiB of memory, and its limit is %d MiB", with.peak>>20, memory>>20))
	}
	return errors.Join(errs...)
}

// memoryLimit is that of the controller in the manifests.
func memoryLimit(root string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(root, "manifests", "deploy", "controller.yaml"))
	if err != nil {
		return 0, err
	}
	_, limits, _ := strings.Cut(string(text), "limits:")
	_, value, ok := strings.Cut(limits, "memory: ")
	if !ok {
		return 0, errors.New("manifests/deploy/controller.yaml has no memory limit")
	}
	value, _, _ = strings.Cut(value, "\n")
	limit, err := resource.ParseQuantity(strings.TrimSpace(value))
	return limit.Value(), err
}

// weigh notes the most memory that a controller takes, each second until ctx ends.
func (s *soak) weigh(ctx context.Context) {
	for ctx.Err() == nil {
		for _, r := range s.replicas {
			s.peak.Store(max(s.peak.Load(), r.memory()))
		}
		pause(ctx, time.Second)
	}
}

// memory is the most that the current process took so far; 0 if it is gone.
func (r *replica) memory() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.current.PID))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int64
	_, _ = fmt.Sscan(after, &kilobytes) // a process that has just ended has none
	return kilobytes << 10
}
