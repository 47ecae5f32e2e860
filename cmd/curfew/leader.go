package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// leaseRetry is how often a waiting controller looks at the lease: a leader that gives it up is
// followed within 2.2 times that, since the interval is jittered.
const leaseRetry = 500 * time.Millisecond

// lease is the lock that controllers take turns with. The same interval sets how often the leader
// renews it. That would be too many writes, so most of them are left out.
type lease struct {
	resourcelock.Interface
	clock   clock.PassiveClock
	every   time.Duration
	renewed atomic.Int64
}

// newLease makes the lock for a Lease in Curfew's namespace. A request may take as long as half of
// deadline, so that one that hangs does not cost the lease.
func newLease(config *rest.Config, options *options, deadline time.Duration) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this replica: %w", err)
	}
	// AddUserAgent changes the config that it is given, and the timeout of a lease would cut every
	// watch.
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = max(deadline/2, time.Second)
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, options.namespace, options.leaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, deadline)
	if err != nil {
		return nil, fmt.Errorf("client of the lease: %w", err)
	}
	return &lease{Interface: lock, clock: clock.RealClock{}, every: options.leaseDuration / 7}, nil
}

// Update writes the record unless it only renews what was renewed a moment ago.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	now := l.clock.Now()
	mine := record.HolderIdentity == l.Identity()
	if mine && now.Sub(time.Unix(0, l.renewed.Load())) < l.every {
		return nil
	}
	l.renewed.Store(0)
	if err := l.Interface.Update(ctx, record); err != nil {
		return err
	}
	if mine {
		l.renewed.Store(now.UnixNano())
	}
	return nil
}
