package expire

import (
	"slices"
	"time"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// slots limit how many jobs are under way, and share them out. A job holds one slot from its live
// judgement to the answer to its request. A request may take long for reasons of its namespace or
// its resource alone: a webhook that hangs, an aggregated API that is down. Others must not wait
// for it. Therefore
//
//   - the resources of a namespace, and the cluster-scoped resources, are groups that take turns.
//     While another group waits, a group has at most a quarter of the slots. A job counts for its
//     group until it ends, with or without a slot,
//   - a job that has been under way for slowAfter gives its slot back,
//   - a group with a job of over stuckAfter is slow: it has one job at a time, which takes no slot,
//     until one is quick again. Slow groups together have a quarter of Options.MaxConcurrency.
//
// A 429 of the API server itself pauses everything but one request a second: see retryAfter. A
// resource that gets it again and again, while others do not, is left to its breaker, and so is a
// resource whose own API answers 429.
type slots struct {
	*entries
	conc     *deletion.Concurrency
	inFlight int    // jobs with a slot
	apart    int    // jobs without a slot
	slow     int    // jobs of slow groups
	recent   []*job // under way for less than slowAfter, in the order of their start; some have ended
	long     []*job // the same, for longer than that
	traffic  []*traffic
	pause    retryAfter // the API server itself refuses
}

const (
	// slowAfter is far longer than a busy API server takes, and no longer than the second by which
	// any deletion may be late.
	slowAfter = time.Second
	// stuckAfter is longer than an overloaded API server takes.
	stuckAfter = 5 * time.Second
	// minShare is how many jobs a group may have, however few slots there are.
	minShare = 4
)

// trafficOf finds the traffic of a resource, or adds it. The lock is held.
func (e *slots) trafficOf(o *KindOptions) *traffic {
	i := slices.IndexFunc(e.traffic, func(t *traffic) bool { return t.of == o.Resource })
	if i < 0 {
		i = len(e.traffic)
		e.traffic = append(e.traffic, &traffic{of: o.Resource, number: uint16(i)})
	}
	return e.traffic[i]
}

// full reports whether no job may begin. The lock is held.
func (e *slots) full() bool { return e.inFlight >= e.conc.Limit() }

// room says whether a group may begin one more job while there are slots. The lock is held.
func (e *slots) room(g *index.Group) index.Room {
	switch {
	case g == nil:
		return index.Free
	case g.Slow && (g.InFlight > 0 || e.slow >= e.maxSlow()), g.InFlight >= e.conc.Limit():
		return index.None
	case !g.Slow && g.InFlight >= max(minShare, e.conc.Limit()/4):
		return index.Full
	default:
		return index.Free
	}
}

// maxSlow bounds the jobs of all slow groups.
func (e *slots) maxSlow() int { return max(1, e.opts.MaxConcurrency/4) }

// begin notes that a job is under way. The lock is held.
func (e *slots) begin(j *job) {
	j.group = e.index.Group(j.object.Kind, j.object.Namespace)
	j.group.InFlight++
	if j.slow = j.group.Slow; j.slow {
		j.apart = true
		e.apart++
		e.slow++
		return
	}
	e.inFlight++
	e.recent = append(e.recent, j)
}

// end notes that a job has ended. The lock is held.
func (e *slots) end(j *job) {
	j.over = true
	j.group.InFlight--
	if j.slow {
		e.slow--
	}
	if j.apart {
		e.apart--
	} else {
		e.inFlight--
	}
	e.index.Return(j.group, j.slow)
}

// setApart takes the slots of jobs that have been under way for too long. The lock is held.
func (e *slots) setApart(r reading) {
	e.recent = older(e.recent, r.mono-slowAfter, func(j *job) {
		j.apart = true
		e.inFlight--
		e.apart++
		e.long = append(e.long, j)
	})
	e.long = older(e.long, r.mono-stuckAfter, func(j *job) { e.slowDown(j) })
}

// older passes the jobs that are under way and began before an instant to f, and returns the rest.
func older(jobs []*job, began time.Duration, f func(*job)) []*job {
	for len(jobs) > 0 && (jobs[0].over || jobs[0].started <= began) {
		if !jobs[0].over {
			f(jobs[0])
		}
		jobs[0] = nil
		jobs = jobs[1:]
	}
	return jobs
}

// slowDown notes that a job of a group takes very long. The lock is held.
func (e *slots) slowDown(j *job) {
	if j.group.Slow {
		return
	}
	j.group.Slow = true
	e.note(func() {
		e.opts.Log.Info("requests take long: others do not wait for them", "kind", j.kind.Kind, "namespace", j.object.Namespace,
			"longerThan", stuckAfter.String())
	})
}

// took notes how long a job took, and reports whether it was quick. The lock is held.
func (e *slots) took(j *job, took time.Duration) (quick bool) {
	switch {
	case took >= stuckAfter:
		e.slowDown(j)
	case took < slowAfter && j.group.Slow:
		j.group.Slow = false
		e.note(func() {
			e.opts.Log.Info("requests are answered quickly again", "kind", j.kind.Kind, "namespace", j.object.Namespace)
		})
	}
	return took < slowAfter
}

// untilApart returns how long until setApart has to be called, or 0 if nothing is under way.
func (e *slots) untilApart(r reading) time.Duration {
	for _, j := range e.recent {
		if !j.over {
			return max(time.Millisecond, j.started+slowAfter-r.mono)
		}
	}
	for _, j := range e.long {
		if !j.over {
			return max(time.Millisecond, j.started+stuckAfter-r.mono)
		}
	}
	return 0
}

// othersQuick reports whether requests for other resources were answered quickly since an instant.
// The lock is held.
func (e *slots) othersQuick(own *traffic, since time.Duration) bool {
	return slices.ContainsFunc(e.traffic, func(t *traffic) bool { return t != own && t.quick > since })
}

// alone reports whether a job took long because of its resource or its namespace: other requests
// were answered quickly meanwhile. The lock is held.
func (e *slots) alone(j *job, r reading) bool {
	return r.mono-j.started >= slowAfter && e.othersQuick(nil, j.started)
}

// unheard reports whether a job got no answer while the API server answered others. The lock is
// held.
func (e *slots) unheard(j *job, r reading) bool {
	if e.alone(j, r) {
		return true
	}
	took := r.mono - j.started
	if took < slowAfter || e.opts.Skew == nil {
		return false
	}
	last := e.opts.Skew.Estimate(r.wall)
	return last.Known && last.Age < took
}
