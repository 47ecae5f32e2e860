package deletion

import (
	stdheap "container/heap"
	"testing"
	"time"
)

// station is a queue before a few servers: what an API server on a few cores looks like from
// outside. It runs the closed loop of a drain, deterministically.
type station struct {
	servers int
	service time.Duration
	// refuseAbove: requests beyond so many are answered 429.
	refuseAbove int

	now     time.Duration
	free    []time.Duration
	pending events
	done    int
	latency time.Duration
	refused int
}

type event struct {
	at, sent time.Duration
	refused  bool
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any          { x := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return x }

func (s *station) run(c *Concurrency, until time.Duration) {
	if len(s.free) != s.servers {
		s.free = make([]time.Duration, s.servers)
	}
	s.done, s.latency, s.refused = 0, 0, 0
	for s.now < until {
		s.step(c)
	}
}

// step sends what may be sent, and waits for one answer.
func (s *station) step(c *Concurrency) {
	for len(s.pending) < c.Limit() {
		if s.refuseAbove > 0 && len(s.pending) >= s.refuseAbove {
			stdheap.Push(&s.pending, event{s.now + s.service, s.now, true})
			continue
		}
		first := 0
		for i := range s.free {
			if s.free[i] < s.free[first] {
				first = i
			}
		}
		s.free[first] = max(s.free[first], s.now) + s.service
		stdheap.Push(&s.pending, event{s.free[first], s.now, false})
	}
	ev := stdheap.Pop(&s.pending).(event)
	s.now = ev.at
	c.Observe(Sample{At: ev.at, Latency: ev.at - ev.sent, InFlight: len(s.pending) + 1, Refused: ev.refused})
	if ev.refused {
		s.refused++
		return
	}
	s.done++
	s.latency += ev.at - ev.sent
}

func TestConcurrency(t *testing.T) {
	for name, c := range map[string]struct {
		station  station
		drain    bool
		share    float64       // of what the station can do at all
		mostMean time.Duration // mean latency, the station's queue being ours alone
	}{
		"two cores":                   {station{servers: 2, service: time.Millisecond}, false, 0.97, 16 * time.Millisecond},
		"two cores, drain":            {station{servers: 2, service: time.Millisecond}, true, 0.97, 36 * time.Millisecond},
		"one slow core":               {station{servers: 1, service: 20 * time.Millisecond}, false, 0.97, 620 * time.Millisecond},
		"many cores":                  {station{servers: 64, service: 5 * time.Millisecond}, false, 0.85, 10 * time.Millisecond},
		"latency, no load (far away)": {station{servers: 1000, service: 80 * time.Millisecond}, false, 0.2, 82 * time.Millisecond},
		"slow answers, no load":       {station{servers: 64, service: 2 * time.Second}, false, 0.8, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.station
			lim := NewConcurrency(256, c.drain)
			s.run(lim, 5*time.Second) // finds its way
			s.run(lim, 65*time.Second)
			best := 60 / s.service.Seconds() * float64(s.servers)
			share := float64(s.done) / best
			mean := s.latency / time.Duration(s.done)
			if share < c.share {
				t.Errorf("throughput is %.3f of the maximum, want %.2f or more", share, c.share)
			}
			if mean > c.mostMean {
				t.Errorf("mean latency %s, want at most %s", mean, c.mostMean)
			}
		})
	}
}

// Another client needs the API server: the engine makes room, and takes it back later.
func TestConcurrencyYields(t *testing.T) {
	s := station{servers: 16, service: 5 * time.Millisecond}
	c := NewConcurrency(256, false)
	s.run(c, 5*time.Second)
	alone := c.Limit()
	s.servers, s.service = 4, 10*time.Millisecond
	s.run(c, 9*time.Second)
	crowded := c.Limit()
	s.servers, s.service = 16, 5*time.Millisecond
	s.run(c, 60*time.Second)
	again := c.Limit()
	if crowded > alone*2/3 {
		t.Errorf("limit %d when the API server is slower, was %d: want at most two thirds", crowded, alone)
	}
	if again < alone*2/3 {
		t.Errorf("limit %d when it is quick again, was %d before", again, alone)
	}
}

// 429 halves, and does not do so again for the same crowd.
func TestConcurrencyRefused(t *testing.T) {
	c := NewConcurrency(256, true)
	c.limit, c.starting = 64, false
	d := time.Second
	for range 30 {
		c.Observe(Sample{At: d, Latency: 50 * time.Millisecond, InFlight: 60, Refused: true})
	}
	if got := c.Limit(); got != 32 {
		t.Errorf("after a burst of refusals the limit is %d, want 32", got)
	}
	for range 20 {
		d += time.Second
		c.Observe(Sample{At: d, Latency: 50 * time.Millisecond, InFlight: 10, Refused: true})
	}
	if got := c.Limit(); got != 1 {
		t.Errorf("after refusals without end the limit is %d, want 1", got)
	}
	s := station{servers: 100, service: 10 * time.Millisecond, refuseAbove: 20, now: d}
	s.run(c, d+30*time.Second)
	if s.refused*20 > s.done {
		t.Errorf("%d refused for %d accepted: wants to be below one in twenty", s.refused, s.done)
	}
	if s.done < 30*20*100/4 {
		t.Errorf("%d accepted, want a quarter of what fits at least", s.done)
	}
}

// A limit that is not used does not grow: nothing shows whether a higher one would work.
func TestConcurrencyIdle(t *testing.T) {
	c := NewConcurrency(256, false)
	for i := range 10_000 {
		c.Observe(Sample{At: time.Duration(i) * 10 * time.Millisecond, Latency: 3 * time.Millisecond, InFlight: 1})
	}
	if got := c.Limit(); got > Start {
		t.Errorf("one at a time for a while, and the limit is %d", got)
	}
}

func TestConcurrencyCap(t *testing.T) {
	c := NewConcurrency(3, true)
	s := station{servers: 100, service: time.Millisecond}
	s.run(c, 10*time.Second)
	if got := c.Limit(); got > 3 {
		t.Errorf("limit %d, capped at 3", got)
	}
}
