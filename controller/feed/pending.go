package feed

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// pending is a set of names that wait to be worked on, each at most once.
type pending struct {
	mu    sync.Mutex
	names []string
	has   map[string]bool
	wake  chan struct{}
}

func newPending() *pending {
	return &pending{has: map[string]bool{}, wake: make(chan struct{}, 1)}
}

func (p *pending) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has[name] {
		return
	}
	p.has[name] = true
	p.names = append(p.names, name)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// drop takes a name out on which there is nothing left to work.
func (p *pending) drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.has[name] {
		return
	}
	delete(p.has, name)
	p.names = slices.DeleteFunc(p.names, func(other string) bool { return other == name })
}

// next waits for a name; false when ctx is done.
func (p *pending) next(ctx context.Context) (string, bool) {
	for {
		if name, ok := p.take(); ok {
			return name, true
		}
		if !p.wait(ctx, nil, 0) {
			return "", false
		}
	}
}

// wait returns once there may be a name, or after atMost, unless that is 0; false when ctx is done.
func (p *pending) wait(ctx context.Context, clock clock.Clock, atMost time.Duration) bool {
	var over <-chan time.Time
	if atMost > 0 {
		timer := clock.NewTimer(atMost)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-p.wake:
	case <-over:
	}
	return true
}

func (p *pending) take() (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) == 0 {
		return "", false
	}
	name := p.names[0]
	p.names = p.names[1:]
	delete(p.has, name)
	return name, true
}
