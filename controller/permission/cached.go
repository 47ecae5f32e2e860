package permission

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// cachedFor is how long it is remembered that something is granted.
	cachedFor = time.Minute
	// maxCached is how much is remembered of all accounts together. It takes some 6 MB.
	maxCached = 20_000
)

// Cached remembers for a while the permissions of accounts. It asks each time for a permission that
// was refused, so that it counts as soon as it is granted. One that was taken away may still count
// for a while; the API server refuses its use.
//
// It asks for single permissions, never for all that an account may do: a tenant may make that list
// as long as it likes.
type Cached struct {
	clock   clock.PassiveClock
	granted *lru.Cache // until when, by grant
}

// grant is one permission of an account in a namespace.
type grant struct {
	Need
	account, namespace string
}

// NewCached makes a cache that remembers nothing yet.
func NewCached(clock clock.PassiveClock) *Cached {
	return &Cached{clock: clock, granted: lru.New(maxCached)}
}

// LacksIn returns the needs that are not granted to an account in a namespace, or with "" in all.
// The reviews have to ask as that account. ask as that account.
func (c *Cached) LacksIn(ctx context.Context, account string, reviews Reviews, namespace string, needs []Need) (lacks []Need, err error) {
	for _, need := range needs {
		of, now := grant{need, account, namespace}, c.clock.Now()
		known, _ := c.granted.Get(of)
		if until, ok := known.(time.Time); ok && now.Before(until) {
			continue
		}
		missing, err := reviews.LacksIn(ctx, namespace, []Need{need})
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			c.granted.Add(of, now.Add(cachedFor))
		}
		lacks = append(lacks, missing...)
	}
	return lacks, nil
}
