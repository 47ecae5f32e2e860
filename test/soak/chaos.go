package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"curfew.dev/curfew/test/harness"
)

// chaos breaks one thing after the other, and keeps a record.
type chaos struct {
	cluster  *harness.Cluster
	replicas []*replica
	random   *rand.Rand
	gap      time.Duration // between two of them, on average
	longest  time.Duration // of a stall or an outage that is made to last
	gentle   bool          // nothing that ends a leader
	quiet    bool          // nothing at all
	out      io.Writer

	record []disruption
}

// trouble is one way to break things. It returns when all is mended, but for what Curfew has to
// mend itself.
type trouble struct {
	name string
	// harsh ones end a leader, or make it end itself.
	harsh bool
	do    func(*chaos, context.Context) error
}

// troubles are in the order of the first round: those that end at once come before those that may
// take a busy machine a while.
var troubles = []trouble{
	{"kill -9 a controller", true, func(c *chaos, _ context.Context) error { return c.any().kill() }},
	{"cut connections", false, (*chaos).cut},
	{"kill -9 etcd", false, func(c *chaos, ctx context.Context) error { return c.outage(ctx, "etcd") }},
	{"stall connections", false, (*chaos).stall},
	{"kill -9 kube-apiserver", true, func(c *chaos, ctx context.Context) error { return c.outage(ctx, "kube-apiserver") }},
	{"refuse connections", false, (*chaos).refuse},
	{"kill -9 both controllers", true, (*chaos).killAll},
}

// run goes on until ctx ends; what it has begun it mends. The first round is in order, so that a
// short soak has some of each.
func (c *chaos) run(ctx context.Context) error {
	mending := context.WithoutCancel(ctx)
	for round := 0; ; round++ {
		order := c.random.Perm(len(troubles))
		for i := range troubles {
			next := troubles[i]
			if round > 0 {
				next = troubles[order[i]]
			}
			if next.harsh && c.gentle {
				continue
			}
			pause(ctx, c.gap/2+time.Duration(c.random.Int64N(int64(c.gap))))
			if ctx.Err() != nil {
				return nil
			}
			from := time.Now()
			err := next.do(c, mending)
			to := time.Now()
			c.record = append(c.record, disruption{next.name, from, to})
			fmt.Fprintf(c.out, "%s  %s, mended after %s\n", clockTime(from), next.name, to.Sub(from).Round(10*time.Millisecond))
			if err != nil {
				return fmt.Errorf("%s: %w", next.name, err)
			}
		}
	}
}

func (c *chaos) any() *replica { return c.replicas[c.random.IntN(len(c.replicas))] }

// while is how long something lasts: more than a second, so that something falls due meanwhile,
// which happens at whole ones.
func (c *chaos) while() time.Duration {
	return 1100*time.Millisecond + time.Duration(c.random.Int64N(int64(max(c.longest-time.Second, 100*time.Millisecond))))
}

// outage kills a component and starts it again with its data. Etcd runs without fsync, which a kill
// of the process does not matter to: what it has written is the kernel's by then. A crash of the
// machine would be another matter.
func (c *chaos) outage(ctx context.Context, component string) error {
	if err := c.cluster.Kill(ctx, component); err != nil {
		return err
	}
	if !c.gentle {
		pause(ctx, c.while()/2)
	}
	for tries := 1; ; tries++ {
		err := c.cluster.Restart(ctx, component)
		if err == nil || tries == 5 {
			return err
		}
		if !strings.Contains(err.Error(), "ended:") {
			// It runs, and is busy with all who have waited for it.
			return c.ready(ctx)
		}
		// A client may have got that very port as its own end, and connected to itself.
		for _, r := range c.replicas {
			r.wire.Cut()
		}
		pause(ctx, time.Second)
	}
}

// ready waits until the API server, and etcd behind it, answer.
func (c *chaos) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		_, stderr, err := c.cluster.Kubectl(ctx, "get", "--raw", "/readyz")
		if err == nil {
			return nil
		}
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the API server: %w\n%s", err, stderr)
		}
	}
}

func (c *chaos) killAll(context.Context) error {
	var errs []error
	for _, r := range c.replicas {
		errs = append(errs, r.kill())
	}
	return errors.Join(errs...)
}

// cut breaks all connections a few times, at whatever byte they are.
func (c *chaos) cut(ctx context.Context) error {
	for range 3 {
		for _, r := range c.replicas {
			r.wire.Cut()
		}
		pause(ctx, 150*time.Millisecond)
	}
	return nil
}

// stall holds back requests and answers on their way, DELETEs and watch events alike, so that they
// arrive late.
func (c *chaos) stall(ctx context.Context) error {
	for _, r := range c.replicas {
		r.wire.Stall()
		defer r.wire.Resume()
	}
	pause(ctx, c.while())
	return nil
}

// refuse breaks all connections and lets no new ones come about for a while.
func (c *chaos) refuse(ctx context.Context) error {
	for _, r := range c.replicas {
		r.wire.Refuse(true)
		defer r.wire.Refuse(false)
		r.wire.Cut()
	}
	pause(ctx, c.while())
	return nil
}
