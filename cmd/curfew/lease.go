package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/loop"
)

// lease is the lock of the leader election. It also remembers when this replica renewed the Lease: a
// process that was stopped for a while deletes nothing before it has renewed it again.
type lease struct {
	resourcelock.Interface
	clock    clock.PassiveClock
	duration time.Duration
	renewed  atomic.Pointer[time.Time] // when the last renewal was sent; nil: not the holder
	lost     loop.Signal               // another replica holds it
}

// newLease makes the lock for a Lease in Curfew's namespace.
func newLease(config *rest.Config, options *options) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this replica: %w", err)
	}
	deadline, _ := options.renewal()
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, options.namespace, options.leaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, deadline)
	if err != nil {
		return nil, fmt.Errorf("client of the lease: %w", err)
	}
	return &lease{Interface: lock, clock: clock.RealClock{}, duration: options.leaseDuration, lost: loop.NewSignal()}, nil
}

// renewal returns for how long a leader tries to renew the Lease before it gives up, and how often
// each replica looks at the Lease: client-go's defaults, or less for a shorter Lease.
func (o *options) renewal() (deadline, retry time.Duration) {
	return o.leaseDuration * 2 / 3, min(2*time.Second, o.leaseDuration*2/15)
}

// held reports whether this replica has renewed the Lease within its duration, so that no other one
// can hold it. A nil lease is that of a process without leader election.
func (l *lease) held() bool {
	if l == nil {
		return true
	}
	renewed := l.renewed.Load()
	return renewed != nil && deletion.Age(l.clock.Now(), *renewed) < l.duration
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && l.renewed.Swap(nil) != nil && record.HolderIdentity != "" {
		l.lost.Set()
	}
	return record, raw, err
}

// Update implements resourcelock.Interface. A renewal counts from its sending: other replicas see it
// later. Once this replica began to give the Lease up, another one may hold it.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent, mine := l.clock.Now(), record.HolderIdentity == l.Identity()
	if !mine {
		l.renewed.Store(nil)
	}
	err := l.Interface.Update(ctx, record)
	if err == nil && mine {
		l.renewed.Store(&sent)
	}
	return err
}

// watch ends the process when another replica holds the Lease. client-go would try to renew it until
// the deadline first.
func (l *lease) watch(ctx context.Context) error {
	if l.lost.Wait(ctx, nil, 0) {
		return errors.New("another replica holds the lease")
	}
	return nil
}
