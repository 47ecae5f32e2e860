package permission

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// cachedFor is how long what is granted in a namespace is remembered.
	cachedFor = time.Minute
	// cachedMost is in how many namespaces.
	cachedMost = 1000
)

// Cached asks for all that is granted in a namespace at once, and remembers it for a while. What is
// not among it is asked for each time, so that a permission counts as soon as it is granted. One
// that was taken away may still count for a while; the API server refuses its use.
type Cached struct {
	Reviews
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[string]cached
}

type cached struct {
	grants Grants
	until  time.Time
}

// NewCached makes a cache of reviews, which must have RulesOf.
func NewCached(reviews Reviews, clock clock.PassiveClock) *Cached {
	return &Cached{Reviews: reviews, clock: clock, known: map[string]cached{}}
}

// LacksIn returns the needs that are not granted in a namespace, or with "" in all.
func (c *Cached) LacksIn(ctx context.Context, namespace string, needs []Need) ([]Need, error) {
	grants, err := c.grantsIn(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var open []Need
	for _, need := range needs {
		if !grants.grants(need) {
			open = append(open, need)
		}
	}
	return c.Reviews.LacksIn(ctx, namespace, open)
}

func (c *Cached) grantsIn(ctx context.Context, namespace string) (Grants, error) {
	if namespace == "" {
		namespace = Nowhere
	}
	now := c.clock.Now()
	c.mu.Lock()
	found, ok := c.known[namespace]
	c.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.grants, nil
	}
	grants, err := c.Rules(ctx, namespace)
	if err != nil {
		return Grants{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= cachedMost {
		clear(c.known)
	}
	c.known[namespace] = cached{grants, now.Add(cachedFor)}
	return grants, nil
}
