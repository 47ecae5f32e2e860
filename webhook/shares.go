package webhook

import (
	"context"
	"net"
	"strings"
	"time"
)

// permit counts a question of a caller for a tenant, and reports whether it is within the limit.
// Refused questions are not counted, so that at most Limit callers and tenants are remembered.
func (c *CachedReviews) permit(of ...digest) bool {
	if c.Limit == 0 {
		return true
	}
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.second); age < 0 || age >= time.Second {
		if c.before = c.asked; age < 0 || age >= 2*time.Second {
			c.before = &uses{}
		}
		c.second, c.asked = now, &uses{}
	}
	limit, asked, before := c.Limit, c.asked, c.before
	for _, key := range of {
		limit = share(limit, asked, before, key)
		if asked, before = asked.of(key), before.of(key); asked.count >= limit {
			return false
		}
	}
	c.asked.add(of)
	return true
}

// uses are the questions of a second, by caller and then by tenant.
type uses struct {
	count int
	by    map[digest]*uses
}

// none is for one who has asked nothing.
var none = &uses{}

func (u *uses) of(key digest) *uses {
	if of := u.by[key]; of != nil {
		return of
	}
	return none
}

func (u *uses) add(of []digest) {
	if u.count++; len(of) == 0 {
		return
	}
	if u.by == nil {
		u.by = map[digest]*uses{}
	}
	if u.by[of[0]] == nil {
		u.by[of[0]] = &uses{}
	}
	u.by[of[0]].add(of[1:])
}

// share is how many of the questions within a limit one of several may ask in a second: half of
// what the others leave, and no more than a part of the limit. Where the others asked in the second
// before, too, that leaves a part for one who has not asked yet.
func share(limit int, asked, before *uses, key digest) int {
	parts := 2
	for one := range asked.by {
		if one != key {
			parts++
		}
	}
	for one := range before.by {
		if one != key && asked.by[one] == nil {
			parts++
		}
	}
	left := limit - (asked.count - asked.of(key).count)
	return min((left+1)/2, max(1, limit/parts))
}

// callerKey is the key under which a context has the address of the caller.
type callerKey struct{}

// calledFrom notes from which host a request comes. An API server sends the requests of all its
// users from one, and those who post reviews of users that they made up use another.
func calledFrom(ctx context.Context, address string) context.Context {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return context.WithValue(ctx, callerKey{}, address)
}

// requesterKey is the key under which a context has the user whose request is reviewed. The request
// may cost questions about other users.
type requesterKey struct{}

func requestedBy(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, requesterKey{}, user)
}

// tenantOf is the user, or the namespace of a ServiceAccount: a user who creates one there may
// create many.
func tenantOf(user string) string {
	if account, ok := strings.CutPrefix(user, serviceAccountPrefix); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return serviceAccountPrefix + namespace
	}
	return user
}

const serviceAccountPrefix = "system:serviceaccount:"
