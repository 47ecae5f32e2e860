package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Names of what the soak makes.
const (
	prefix     = "curfew.dev/"
	soakGroup  = "soak.curfew.dev"
	policyName = "soak"
	// nsPrefix heads the names of its namespaces.
	nsPrefix = "soak-"
)

// way is where an object's TTL comes from.
type way uint8

const (
	byAnnotation way = iota
	byField
	byOutcome
	// Defaults of a namespace or a policy, stamped at admission, or created while no webhook answered
	// and so resolved live.
	stamped
	live
	liveUntilChanged // its namespace's default is raised in the middle of it all
	policyStamped
	policyLive
	ofJob // a Pod of a Job, whose default is always resolved live
	kept  // nothing, never, unfinished, protected or unreadable
)

// act is what the second writer does to an object.
type act uint8

const (
	nothing act = iota
	touch
	raise // to far beyond the end
	shift // to some seconds later
	lower // from far beyond the end to now
	takeAway
	protect
	unprotect
	recreate
	account // for a Pod that its Job has not accounted for yet
	release // takes away a foreign finalizer, some seconds after the expiry
)

// share is how many of a hundred.
type share[T any] struct {
	of    T
	parts int
}

var ways = []share[way]{
	{byAnnotation, 20}, {byField, 16}, {byOutcome, 8}, {stamped, 15}, {live, 13}, {liveUntilChanged, 5},
	{policyStamped, 5}, {policyLive, 6}, {ofJob, 6}, {kept, 6},
}

var acts = []share[act]{
	{nothing, 52}, {touch, 8}, {raise, 9}, {shift, 5}, {lower, 6}, {takeAway, 5}, {protect, 4}, {unprotect, 4}, {recreate, 5}, {release, 2},
}

var kinds = []share[string]{{jobs, 50}, {pods, 32}, {batches, 18}}

func pick[T any](r *rand.Rand, from []share[T]) T {
	n := r.IntN(100)
	for _, s := range from {
		if n -= s.parts; n < 0 {
			return s.of
		}
	}
	return from[0].of
}

// object is one of the fleet, as it is planned.
type object struct {
	kind, namespace, name string
	way                   way
	act                   act
	// ttl is what decides, however it is written.
	ttl time.Duration
	// failed objects ended in failure. Silent ones do not say when.
	failed, silent bool
	// restored objects finished in 2001, long before they were created.
	restored bool
	// verified is what the other finish time of a batch differs by.
	verified time.Duration
	// oddity of those that are kept.
	oddity string
	// at is when the act begins, counted from the expiry.
	at time.Duration

	// As it comes to be.
	uid     string
	created time.Time
	due     time.Time
}

// far is beyond the end of any soak.
const far = 300 * time.Hour

// Defaults of the soak's namespaces and its policy.
const (
	defaultTTL    = 6 * time.Second
	defaultPodTTL = 4 * time.Second
	policyTTL     = 8 * time.Second
)

var oddities = []string{"nothing", "never", "unfinished", "protected", "unreadable", "other outcome"}

// newFleet plans count objects that expire within a window. The same seed plans the same.
func newFleet(r *rand.Rand, count int, window time.Duration) []*object {
	fleet := make([]*object, count)
	for i := range fleet {
		o := &object{kind: pick(r, kinds), way: pick(r, ways), failed: r.IntN(4) == 0}
		if o.way == byField && o.kind == pods {
			o.way = byAnnotation // Pods have no such field
		}
		if o.way == ofJob {
			o.kind = pods
		}
		o.name = fmt.Sprintf("%s-%05d", o.kind[:3], i)
		o.namespace = nsPrefix + o.home(i)
		o.ttl = o.lifetime(r, window)
		o.act = o.fate(r)
		// Half of the acts meet the expiry itself. The others come in the half minute before it, or after
		// it, which meets what a webhook or a dry-run has held back.
		o.at = time.Duration(r.IntN(430)-400) * time.Millisecond
		if r.IntN(2) == 0 && o.act != recreate {
			o.at = time.Duration(r.IntN(40_000)-30_000) * time.Millisecond
		}
		if o.verified = -20 * time.Second; r.IntN(2) == 0 {
			o.verified = time.Hour
		}
		if o.way == kept {
			o.oddity = oddities[r.IntN(len(oddities))]
		}
		if o.kind == pods && o.way == byAnnotation && r.IntN(25) == 0 {
			o.silent, o.failed, o.act, o.ttl = true, true, nothing, 5*time.Second
		}
		if o.kind != pods && o.explicit() && o.act == nothing && r.IntN(25) == 0 {
			o.restored, o.ttl = true, far
		}
		if o.act == lower && o.explicit() {
			o.ttl = far
		}
		fleet[i] = o
	}
	return fleet
}

// home is the namespace.
func (o *object) home(i int) string {
	switch o.way {
	case stamped:
		return "stamped"
	case live, ofJob:
		return "live"
	case liveUntilChanged:
		return "changed"
	case policyStamped, policyLive:
		return "platform"
	default:
		return fmt.Sprintf("plain-%d", i%3)
	}
}

// lifetime is short enough that an object that is created now can expire within the window: nothing
// finishes before it exists.
func (o *object) lifetime(r *rand.Rand, window time.Duration) time.Duration {
	switch o.way {
	case stamped, live, liveUntilChanged:
		if o.kind == pods {
			return defaultPodTTL
		}
		return defaultTTL
	case ofJob:
		return defaultPodTTL
	case policyStamped, policyLive:
		return policyTTL
	default:
		return time.Second + time.Duration(r.Int64N(int64(window))).Truncate(time.Second)
	}
}

func (o *object) fate(r *rand.Rand) act {
	switch {
	case o.way == kept:
		return nothing
	case o.way == ofJob:
		if r.IntN(3) == 0 {
			return account
		}
		return nothing
	}
	fate := pick(r, acts)
	if fate == takeAway && o.resolvedLive() {
		fate = protect // there is nothing that could be taken away
	}
	if fate == lower && !o.explicit() {
		fate = shift // a default is short already
	}
	return fate
}

// unseen: created while no webhook answers, which also lets in what it would refuse.
func (o *object) unseen() bool { return o.resolvedLive() || o.way == kept }

// resolvedLive: no default was stamped, so that the controller finds it out.
func (o *object) resolvedLive() bool {
	return o.way == live || o.way == liveUntilChanged || o.way == policyLive || o.way == ofJob
}

// explicit: the object says so itself.
func (o *object) explicit() bool {
	return o.way == byAnnotation || o.way == byField || o.way == byOutcome
}

// inField: the TTL stands, or admission writes it, into the kind's own field.
func (o *object) inField() bool {
	return o.kind != pods && (o.way == byField || o.way == stamped || o.way == policyStamped)
}

// key is the annotation that decides.
func (o *object) key() string {
	switch {
	case o.way == byOutcome && o.failed:
		return prefix + "ttl-after-failed"
	case o.way == byOutcome:
		return prefix + "ttl-after-succeeded"
	default:
		return prefix + "ttl-after-finished"
	}
}

// annotations are what its author writes.
func (o *object) annotations() map[string]string {
	out := map[string]string{}
	if o.way == byAnnotation || o.way == byOutcome {
		out[o.key()] = seconds(o.ttl)
	}
	if o.way == byOutcome {
		// The other outcome says something else, which must not count.
		if other := prefix + "ttl-after-succeeded"; o.failed {
			out[other] = "1"
		} else {
			out[prefix+"ttl-after-failed"] = "1"
		}
	}
	if o.act == unprotect {
		out[prefix+"protect"] = "true"
	}
	switch o.oddity {
	case "never":
		out[prefix+"ttl-after-finished"] = "never"
	case "unreadable":
		out[prefix+"ttl-after-finished"] = "soon"
	case "unfinished":
		out[prefix+"ttl-after-finished"] = "1"
	case "protected":
		out[prefix+"ttl-after-finished"], out[prefix+"protect"] = "1", "true"
	case "other outcome":
		if out[prefix+"ttl-after-failed"] = "1"; o.failed {
			delete(out, prefix+"ttl-after-failed")
			out[prefix+"ttl-after-succeeded"] = "1"
		}
	}
	return out
}

// finalizers that it is created with.
func (o *object) finalizers() []string {
	switch o.act {
	case account:
		return []string{"batch.kubernetes.io/job-tracking"}
	case release:
		return []string{"soak.example.com/hold"}
	default:
		return nil
	}
}

func seconds(d time.Duration) string { return fmt.Sprint(int64(d / time.Second)) }

// newRandom is one of several streams of chance that a seed gives.
func newRandom(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// finishes is when the object finishes.
func (o *object) finishes() time.Time {
	switch {
	case o.restored:
		return time.Date(2001, 9, 9, 1, 46, 40, 0, time.UTC)
	case o.act == lower || o.way == kept:
		return o.created
	default:
		return later(o.due.Add(-o.ttl), o.created)
	}
}
