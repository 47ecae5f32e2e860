package feed

import (
	"context"
	"sync"
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

// next waits for a name; false when ctx is done.
func (p *pending) next(ctx context.Context) (string, bool) {
	for {
		if name, ok := p.take(); ok {
			return name, true
		}
		select {
		case <-ctx.Done():
			return "", false
		case <-p.wake:
		}
	}
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
