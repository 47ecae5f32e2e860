package webhook

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// CachedReviews caches answers. It leaves out the name of an object that is to be deleted, so that
// a loop that creates a thousand Jobs asks once. Permissions for single names are therefore not
// seen, and the rule only warns by default.
type CachedReviews struct {
	// Limit is how many questions a second go to the API server; 0 means no limit. Where anyone can
	// call the webhooks, each request may name a user that was never asked about.
	Limit int

	reviewer AccessReviewer
	clock    Clock
	keep     time.Duration

	mu      sync.Mutex
	answers map[digest]cachedAnswer
	// asked are the questions since second began.
	second time.Time
	asked  int
}

// LimitAnonymous is the Limit where callers of the webhooks are not authenticated.
const LimitAnonymous = 100

// errTooMany is the answer beyond the limit.
var errTooMany = errors.New("too many access reviews in one second")

type cachedAnswer struct {
	allowed bool
	until   time.Time
}

const (
	// keepAnswers is how long an answer is cached: the next attempt should notice a role that was just
	// granted.
	keepAnswers = 10 * time.Second
	// maxAnswers bounds the memory; beyond it the cache is cleared, which costs a few requests.
	maxAnswers = 4096
)

// NewCachedReviews caches a reviewer's answers for ten seconds.
func NewCachedReviews(reviewer AccessReviewer, clock Clock) *CachedReviews {
	return &CachedReviews{reviewer: reviewer, clock: clock, keep: keepAnswers, answers: map[digest]cachedAnswer{}}
}

// May implements [AccessReviewer]. Errors are not cached.
func (c *CachedReviews) May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if cmp.Or(what.Verb, verbDelete) == verbDelete {
		what.Name = ""
	}
	key, now := questionOf(&user, &what), c.clock.Now()
	c.mu.Lock()
	known, ok := c.answers[key]
	fresh := ok && now.Before(known.until)
	permitted := fresh || c.permit(now)
	c.mu.Unlock()
	if fresh {
		return known.allowed, nil
	}
	if !permitted {
		return false, errTooMany
	}
	allowed, err := c.reviewer.May(ctx, user, what)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= maxAnswers {
		clear(c.answers)
	}
	c.answers[key] = cachedAnswer{allowed, now.Add(c.keep)}
	return allowed, nil
}

// permit counts a question, and reports whether it is within the limit.
func (c *CachedReviews) permit(now time.Time) bool {
	if age := now.Sub(c.second); age < 0 || age >= time.Second {
		c.second, c.asked = now, 0
	}
	c.asked++
	return c.Limit == 0 || c.asked <= c.Limit
}

// questionOf identifies a question. Names of users and groups may contain any text.
func questionOf(user *authenticationv1.UserInfo, what *authorizationv1.ResourceAttributes) digest {
	parts := []string{user.Username, user.UID, what.Verb, what.Group, what.Resource, what.Namespace, what.Name, strconv.Itoa(len(user.Groups))}
	parts = append(parts, user.Groups...)
	for _, key := range slices.Sorted(maps.Keys(user.Extra)) {
		parts = append(append(parts, key, strconv.Itoa(len(user.Extra[key]))), user.Extra[key]...)
	}
	return digestOf(parts...)
}
