package main

import (
	"context"
	"sort"
	"sync"
	"time"
)

// heartbeats tells between which two instants a revision of etcd was made. Etcd keeps no times, and
// when a revision is seen says only when it had been made at the latest, which is of little use
// after an outage.
type heartbeats struct {
	mu    sync.Mutex
	beats []beat
}

// beat is a write of our own: sent at one instant, answered at another, and in between it became a
// revision.
type beat struct {
	revision        int64
	sent, confirmed time.Time
}

// heartbeatKey is read only by the soak.
const heartbeatKey = "/registry/soak-heartbeat"

// run writes one every interval until ctx ends. While etcd is away there is nothing to date either.
func (h *heartbeats) run(ctx context.Context, store *etcd, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		sent := time.Now()
		revision, err := store.put(ctx, heartbeatKey, "")
		if err == nil {
			h.mu.Lock()
			h.beats = append(h.beats, beat{revision, sent, time.Now()})
			h.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// bounds are the instants between which a revision was made: the heartbeat before it had been sent
// by the first, that after it answered by the second, and it had been seen by then as well.
func (h *heartbeats) bounds(revision int64, seen time.Time) (earliest, latest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := sort.Search(len(h.beats), func(i int) bool { return h.beats[i].revision > revision })
	latest = seen
	if next < len(h.beats) && h.beats[next].confirmed.Before(latest) {
		latest = h.beats[next].confirmed
	}
	if next > 0 {
		earliest = h.beats[next-1].sent
	}
	return earliest, latest
}
