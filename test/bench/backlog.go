package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
)

// backlogTTL keeps the backlog from falling due during the measurement.
const backlogTTL = 30 * 24 * time.Hour

// backlogPrefix gives its Jobs names as long as those that a CronJob gives.
const backlogPrefix = "nightly-report-29301120"

// backlog lets the control plane hold exactly so many finished Jobs that are not due for a month.
// One that holds more is started again without data.
func (e *environment) backlog(ctx context.Context, jobs int) error {
	if e.held > jobs {
		if err := e.renew(ctx); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	l := load{client: client}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	began := time.Now()
	// In pieces, so that one can see how far it is.
	for e.held < jobs {
		set := jobSet{prefix: backlogPrefix, first: e.held, count: min(20000, jobs-e.held), ttl: backlogTTL}
		if err := l.create(ctx, set); err != nil {
			return fmt.Errorf("create the backlog: %w", err)
		}
		if err := l.finish(ctx, set, time.Now().Add(backlogTTL)); err != nil {
			return fmt.Errorf("finish the backlog: %w", err)
		}
		e.held += set.count
		fmt.Fprintf(e.out, "  %d of %d finished Jobs are there after %.0f s\n", e.held, jobs, time.Since(began).Seconds())
	}
	return nil
}
